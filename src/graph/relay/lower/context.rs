//! The module as its functions see it: data types, signatures, constants, and what is lifted.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::relay::ast::{Block, Def, Dim, Expr, ExprKind, RelayModule, Type, TypeKind};
use crate::relay::number::element_type;
use crate::relay::source::{Offset, Result, Source};
use crate::{Constructor, ConstructorRef, DataTypeData, Func, FuncId, Literal, Module};
use cranelift_entity::EntityRef;

use super::types::{Ty, Unifier, substitute};

/// A data type.
pub(super) struct DataDef {
    pub name: String,
    /// Its type parameters, as [`Ty::Param`]s.
    params: Vec<u32>,
    /// Types of each constructor's fields; `None` of an extern type.
    pub constructors: Option<Vec<Vec<Ty>>>,
}

/// A constructor with the types of one use.
pub(super) struct ConstructorUse {
    pub constructor: ConstructorRef,
    pub fields: Vec<Ty>,
    pub result: Ty,
}

/// A function of the module.
#[derive(Clone)]
pub(super) struct Global {
    pub id: FuncId,
    /// Its type parameters, as [`Ty::Param`]s.
    params: Vec<u32>,
    pub args: Vec<Ty>,
    pub result: Ty,
}

/// Names of type parameters in scope.
pub(super) type TypeScope = HashMap<String, Ty>;

/// The state that the functions of a module share.
pub(super) struct Context<'s> {
    pub source: Source<'s>,
    pub types: RefCell<Unifier>,
    pub data: Vec<DataDef>,
    type_names: HashMap<String, (usize, usize)>,
    constructors: HashMap<String, ConstructorRef>,
    pub globals: HashMap<String, Global>,
    pub constants: Vec<Literal>,
    /// Functions that others refer to.
    pub referred: HashSet<String>,
    /// Functions that were written inside of others, after those of the module.
    pub lifted: RefCell<Vec<Option<Func>>>,
}

impl<'s> Context<'s> {
    /// Declares everything that bodies mention.
    pub fn declare(
        source: Source<'s>,
        tree: &RelayModule,
        defs: &[&Def],
        constants: Vec<Literal>,
        module: &mut Module,
    ) -> Result<Context<'s>> {
        let mut cx = Context {
            source,
            types: RefCell::default(),
            data: vec![],
            type_names: HashMap::new(),
            constructors: HashMap::new(),
            globals: HashMap::new(),
            constants,
            referred: referred(defs),
            lifted: RefCell::default(),
        };
        cx.declare_types(tree, module)?;
        cx.declare_globals(defs)?;
        Ok(cx)
    }

    fn declare_types(&mut self, tree: &RelayModule, module: &mut Module) -> Result<()> {
        for (number, def) in tree.types.iter().enumerate() {
            let entry = (number, def.params.len());
            if self.type_names.insert(def.name.clone(), entry).is_some() {
                return Err(self
                    .source
                    .refuse(def.at, format!("type `{}` is defined twice", def.name)));
            }
        }
        for def in &tree.types {
            let (scope, params) = self.type_params(&def.params);
            let constructors = def.constructors.iter().flatten();
            let data_type = module.data_types.push(DataTypeData {
                name: def.name.clone(),
                constructors: constructors
                    .clone()
                    .map(|c| Constructor { name: c.name.clone(), arity: c.fields.len() })
                    .collect(),
            });
            let mut fields = vec![];
            for (index, constructor) in constructors.enumerate() {
                let found = ConstructorRef { data_type, index };
                if self.constructors.insert(constructor.name.clone(), found).is_some() {
                    let message = format!("constructor `{}` is defined twice", constructor.name);
                    return Err(self.source.refuse(def.at, message));
                }
                let types = constructor.fields.iter().map(|t| self.ty(t, &scope));
                fields.push(types.collect::<Result<Vec<Ty>>>()?);
            }
            let constructors = def.constructors.as_ref().map(|_| fields);
            self.data.push(DataDef { name: def.name.clone(), params, constructors });
        }
        Ok(())
    }

    fn declare_globals(&mut self, defs: &[&Def]) -> Result<()> {
        for (number, def) in defs.iter().enumerate() {
            let (scope, params) = self.type_params(&def.function.type_params);
            let function = &def.function;
            let args = function.params.iter().map(|p| self.optional(p.ty.as_ref(), &scope));
            let args = args.collect::<Result<_>>()?;
            let result = self.optional(function.result.as_ref(), &scope)?;
            let global = Global { id: FuncId::new(number), params, args, result };
            if self.globals.insert(def.name.clone(), global).is_some() {
                let message = format!("function `@{}` is defined twice", def.name);
                return Err(self.source.refuse(def.at, message));
            }
        }
        Ok(())
    }

    /// Names type parameters.
    fn type_params(&self, names: &[String]) -> (TypeScope, Vec<u32>) {
        let (mut scope, mut params) = (TypeScope::new(), vec![]);
        for name in names {
            let ty = self.types.borrow_mut().param(name);
            if let Ty::Param(n) = ty {
                params.push(n);
            }
            scope.insert(name.clone(), ty);
        }
        (scope, params)
    }

    /// The type parameters of a function of the module.
    pub fn scope_of(&self, name: &str) -> TypeScope {
        let types = self.types.borrow();
        let params = self.globals[name].params.iter();
        params.map(|n| (types.param_name(*n).to_string(), Ty::Param(*n))).collect()
    }

    /// A type that may be left out.
    pub fn optional(&self, ty: Option<&Type>, scope: &TypeScope) -> Result<Ty> {
        match ty {
            Some(ty) => self.ty(ty, scope),
            None => Ok(self.types.borrow_mut().fresh()),
        }
    }

    /// A type as it is written.
    pub fn ty(&self, ty: &Type, scope: &TypeScope) -> Result<Ty> {
        let all = |items: &[Type]| items.iter().map(|t| self.ty(t, scope)).collect::<Result<_>>();
        match &ty.kind {
            TypeKind::Tensor(dims, dtype) => {
                let dims = dims.iter().map(|dim| match dim {
                    Dim::Const(extent) => Ok(Some(*extent)),
                    Dim::Any => Ok(None),
                    Dim::Name(name) => {
                        let message =
                            format!("`{name}` as a dimension is not supported; write `?`");
                        Err(self.source.refuse(ty.at, message))
                    }
                });
                let dtype = element_type(dtype).ok_or_else(|| {
                    self.source.refuse(ty.at, "an element type that is not known")
                })?;
                Ok(Ty::Tensor(dtype, dims.collect::<Result<_>>()?))
            }
            TypeKind::Name(name) => match scope.get(name) {
                Some(found) => Ok(found.clone()),
                None => self.data_ty(ty.at, name, vec![]),
            },
            TypeKind::Apply(name, args) => self.data_ty(ty.at, name, all(args)?),
            TypeKind::Tuple(items) => Ok(Ty::Tuple(all(items)?)),
            TypeKind::Function(params, args, result) => {
                let mut inner = scope.clone();
                for param in params {
                    inner.insert(param.clone(), self.types.borrow_mut().fresh());
                }
                let args = args.iter().map(|t| self.ty(t, &inner)).collect::<Result<_>>()?;
                Ok(Ty::Function(args, Box::new(self.ty(result, &inner)?)))
            }
            TypeKind::Unknown => Ok(self.types.borrow_mut().fresh()),
        }
    }

    fn data_ty(&self, at: Offset, name: &str, args: Vec<Ty>) -> Result<Ty> {
        match self.type_names.get(name) {
            Some((number, params)) if *params == args.len() => Ok(Ty::Data(*number, args)),
            Some((_, params)) => {
                let message = format!("`{name}` takes {params} types, not {}", args.len());
                Err(self.source.refuse(at, message))
            }
            None => Err(self.source.refuse(at, format!("there is no type `{name}`"))),
        }
    }

    /// A constructor by name, with fresh types for the type's parameters.
    pub fn constructor(&self, name: &str) -> Option<ConstructorUse> {
        let constructor = *self.constructors.get(name)?;
        let def = &self.data[constructor.data_type.index()];
        let mut types = self.types.borrow_mut();
        let with: HashMap<u32, Ty> = def.params.iter().map(|n| (*n, types.fresh())).collect();
        let args = def.params.iter().map(|n| with[n].clone()).collect();
        let fields = def.constructors.as_ref()?.get(constructor.index)?;
        let fields = fields.iter().map(|t| substitute(t, &with)).collect();
        Some(ConstructorUse {
            constructor,
            fields,
            result: Ty::Data(constructor.data_type.index(), args),
        })
    }

    /// A function by name, with fresh types for its type parameters.
    pub fn global(&self, name: &str) -> Option<Global> {
        let found = self.globals.get(name)?.clone();
        let mut types = self.types.borrow_mut();
        let with: HashMap<u32, Ty> = found.params.iter().map(|n| (*n, types.fresh())).collect();
        let args = found.args.iter().map(|t| substitute(t, &with)).collect();
        Some(Global { args, result: substitute(&found.result, &with), ..found })
    }

    /// A type for messages.
    pub fn show(&self, ty: &Ty) -> String {
        self.show_below(ty, 4)
    }

    fn show_below(&self, ty: &Ty, depth: usize) -> String {
        let ty = self.types.borrow().shallow(ty);
        let Some(below) = depth.checked_sub(1) else { return "...".to_string() };
        let list = |items: &[Ty]| {
            let shown = items.iter().take(6).map(|t| self.show_below(t, below));
            shown.collect::<Vec<_>>().join(", ")
        };
        match &ty {
            Ty::Tensor(dtype, dims) if dims.is_empty() => dtype.to_string(),
            Ty::Tensor(dtype, dims) => {
                let dims = dims.iter().map(|d| d.map_or("?".to_string(), |n| n.to_string()));
                format!("Tensor[({}), {dtype}]", dims.collect::<Vec<_>>().join(", "))
            }
            Ty::Tuple(items) => format!("({})", list(items)),
            Ty::Function(args, result) => {
                format!("fn ({}) -> {}", list(args), self.show_below(result, below))
            }
            Ty::Data(number, args) => format!("{}[{}]", self.data[*number].name, list(args)),
            Ty::Param(n) => self.types.borrow().param_name(*n).to_string(),
            Ty::Unknown(_) => "_".to_string(),
        }
    }
}

/// The functions that `@main` needs, in the order of the text; without `@main` all. A module often
/// carries a prelude of which it uses little.
pub(super) fn needed(tree: &RelayModule) -> Vec<&Def> {
    let mut todo = vec!["main".to_string()];
    let mut kept = HashSet::new();
    if !tree.defs.iter().any(|def| def.name == "main") {
        return tree.defs.iter().collect();
    }
    while let Some(name) = todo.pop() {
        let named = tree.defs.iter().filter(|def| def.name == name).collect::<Vec<_>>();
        if kept.insert(name) {
            todo.extend(referred(&named));
        }
    }
    tree.defs.iter().filter(|def| kept.contains(&def.name)).collect()
}

/// The functions that bodies mention.
fn referred(defs: &[&Def]) -> HashSet<String> {
    let mut found = HashSet::new();
    defs.iter().for_each(|def| block_refers(&def.function.body, &mut found));
    found
}

fn block_refers(block: &Block, found: &mut HashSet<String>) {
    block.bindings.iter().for_each(|binding| refers(&binding.value, found));
    refers(&block.result, found);
}

fn refers(e: &Expr, found: &mut HashSet<String>) {
    match &e.kind {
        ExprKind::Global(name) => {
            found.insert(name.clone());
        }
        ExprKind::Tuple(items) => items.iter().for_each(|e| refers(e, found)),
        ExprKind::Project(e, _) => refers(e, found),
        ExprKind::Call { callee, args, .. } => {
            refers(callee, found);
            args.iter().for_each(|e| refers(e, found));
        }
        ExprKind::Function(f) => block_refers(&f.body, found),
        ExprKind::If(cond, then, otherwise) => {
            refers(cond, found);
            block_refers(then, found);
            block_refers(otherwise, found);
        }
        ExprKind::Match { value, arms, .. } => {
            refers(value, found);
            arms.iter().for_each(|arm| block_refers(&arm.body, found));
        }
        ExprKind::Block(block) => block_refers(block, found),
        ExprKind::Var(_)
        | ExprKind::Name(_)
        | ExprKind::Number(_)
        | ExprKind::Bool(_)
        | ExprKind::Meta(_) => {}
    }
}
