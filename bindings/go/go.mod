module reflex

go 1.18
