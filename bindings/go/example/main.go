// Calls a model: the example of README.md.
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"reflex"
)

func run(model string) error {
	engine, err := reflex.NewEngine(reflex.Options{Threads: 2})
	if err != nil {
		return err
	}
	defer engine.Close()
	program, err := engine.Load(model)
	if err != nil {
		return err
	}
	defer program.Close()
	session, err := program.Session(reflex.Tiered)
	if err != nil {
		return err
	}
	defer session.Close()

	x, err := reflex.TensorOf([]int64{2, 3}, []float32{3, 2, 0, 0, 1, 2})
	if err != nil {
		return err
	}
	defer x.Close()
	result, err := session.Call("main", x)
	if err != nil {
		return err
	}
	y := result.(*reflex.Tensor)
	defer y.Close()
	elements, err := reflex.Data[float32](y) // in place
	if err != nil {
		return err
	}
	fmt.Println(y.Shape(), elements)

	err = reflex.Register("example.shout", func(args ...any) (any, error) {
		return strings.ToUpper(args[0].(string)) + "!", nil
	})
	if err != nil {
		return err
	}
	shout, err := reflex.Lookup("example.shout") // programs call it by this name
	if err != nil {
		return err
	}
	defer shout.Close()
	answer, err := shout.Call("done")
	fmt.Println(answer)
	return err
}

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
