//! The data structures of graph IR: modules, functions, bindings, values and types.
//!
//! Decision: docs/decisions/0024-graph-loops.md
//! Decision: docs/decisions/0027-non-tensor-data.md
//! Decision: docs/decisions/0062-relay-text.md

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use cranelift_entity::{PrimaryMap, entity_impl};
use reflex_runtime::late_file::LateFile;
use reflex_tir::{DType, Expr, PrimFunc, Var, VarData};

use crate::constant_pool::ConstantPool;
use crate::literal::Literal;
use crate::op::Op;

/// A value of one function: a parameter, a constant or an output of a binding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);
entity_impl!(Value, "%");

/// A function of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FuncId(u32);
entity_impl!(FuncId, "@");

/// A constant of a module (Relax `Constant`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Const(u32);
entity_impl!(Const, "const");

/// An algebraic data type of a module (Relay `TypeData`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataType(u32);
entity_impl!(DataType, "data");

/// Name and constructors of a data type. Its values are tagged tuples: the number of the constructor,
/// then the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataTypeData {
    /// Name, unique in the module.
    pub name: String,
    /// Constructors; a value's tag is its constructor's index.
    pub constructors: Vec<Constructor>,
}

/// A constructor of a data type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constructor {
    /// Name, unique in its type.
    pub name: String,
    /// Number of fields.
    pub arity: usize,
}

/// A constructor of a module's data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConstructorRef {
    /// The type.
    pub data_type: DataType,
    /// Index among the type's constructors.
    pub index: usize,
}

/// A program (TVM `IRModule`): graph functions, kernels, constants and data types.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Every function, by id. Names are unique.
    pub funcs: PrimaryMap<FuncId, FuncData>,
    /// Every constant.
    pub consts: PrimaryMap<Const, Literal>,
    /// Every data type. Names are unique.
    pub data_types: PrimaryMap<DataType, DataTypeData>,
    /// Constants of an earlier program; equal constants added here share their memory.
    pub pool: ConstantPool,
    /// Files that constants are parts of which may not have been read yet.
    pub late_files: Vec<Arc<LateFile>>,
}

impl Module {
    /// Reads the constants that are still in files. An error if one could not be read, or if a file was changed
    /// since it was opened.
    pub fn read_constants(&self) -> io::Result<()> {
        self.consts.values().for_each(Literal::read);
        self.late_files.iter().try_for_each(|file| file.check())
    }

    /// Adds a constant.
    pub fn add_const(&mut self, literal: Literal) -> Const {
        self.consts.push(self.pool.intern(literal))
    }

    /// The constructor, if the module has it.
    pub fn constructor(&self, constructor: ConstructorRef) -> Option<&Constructor> {
        self.data_types.get(constructor.data_type)?.constructors.get(constructor.index)
    }

    /// The name of a constructor with that of its type: `List.Cons`.
    pub fn constructor_name(&self, constructor: ConstructorRef) -> String {
        let data_type = self.data_types.get(constructor.data_type);
        match (data_type, self.constructor(constructor)) {
            (Some(data_type), Some(found)) => format!("{}.{}", data_type.name, found.name),
            _ => format!("{}.{}", constructor.data_type, constructor.index),
        }
    }
}

/// A graph function or a kernel.
#[derive(Clone, Debug)]
pub enum FuncData {
    /// Relax function.
    Graph(Func),
    /// Loop IR function, called by [`Node::CallTir`].
    Prim(PrimFunc),
}

/// A graph function.
#[derive(Clone, Debug)]
pub struct Func {
    /// Global symbol.
    pub name: String,
    /// Symbolic dimensions, int64 and never negative. Parameter types bind them by first
    /// appearance, [`Node::MatchShape`] and [`Node::MatchCast`] bind more.
    pub syms: PrimaryMap<Var, VarData>,
    /// Every value.
    pub values: PrimaryMap<Value, ValueData>,
    /// Parameters in call order.
    pub params: Vec<Value>,
    /// True if only functions of the module call it; it may be gone once calls of it are inlined.
    pub is_private: bool,
    /// True if calls of it are to be inlined, whatever its size.
    pub inline: bool,
    /// Names of the results, for users; one per result of the body.
    pub result_names: Vec<String>,
    /// Body.
    pub body: Body,
    /// Shapes before [`Func::bind_symbolic_vars`], of the values whose shape it changed.
    pub symbolic_shapes: HashMap<Value, Vec<Expr>>,
}

/// Name and type of a value.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Name hint, the model's own where there is one.
    pub name: String,
    /// Type.
    pub ty: Type,
}

/// Bindings in order, then the results (Relax `SeqExpr`).
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Bindings.
    pub bindings: Vec<Binding>,
    /// Results.
    pub results: Vec<Value>,
}

/// `outputs = node`
#[derive(Clone, Debug)]
pub struct Binding {
    /// Values defined, one per output of the node.
    pub outputs: Vec<Value>,
    /// The computation.
    pub node: Node,
    /// Source for messages (a model's node name).
    pub source: String,
}

/// The computation of a binding.
#[derive(Clone, Debug)]
pub enum Node {
    /// An operator of the table.
    Op {
        /// Operator with attributes.
        op: Op,
        /// Operands.
        args: Vec<Value>,
    },
    /// A constant.
    Const(Const),
    /// A leaf expression that is not a tensor.
    Leaf(LeafExpr),
    /// `call_tir`: a kernel that fills fresh outputs.
    CallTir {
        /// A [`FuncData::Prim`].
        func: FuncId,
        /// Inputs, in parameter order.
        args: Vec<Value>,
        /// Values of the kernel's explicit scalar parameters.
        scalars: Vec<Expr>,
    },
    /// Calls a graph function.
    CallFunc {
        /// A [`FuncData::Graph`].
        func: FuncId,
        /// Arguments.
        args: Vec<Value>,
    },
    /// Calls a packed function by global name; the results are allocated by the callee.
    CallPacked {
        /// Global name.
        name: String,
        /// Tensor arguments.
        args: Vec<Value>,
        /// Integer arguments after them.
        ints: Vec<Expr>,
    },
    /// Runs one of two bodies; outputs are the chosen body's results.
    If {
        /// Bool tensor of one element, or a bool.
        cond: Value,
        /// When true.
        then: Body,
        /// When false.
        otherwise: Body,
    },
    /// A loop.
    Loop(Box<Loop>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// Field of a tuple.
    TupleGet(Value, usize),
    /// Builds, tests or takes apart a value of a data type.
    Data {
        /// Which of them.
        op: DataOp,
        /// The constructor that it is about.
        constructor: ConstructorRef,
        /// The fields to build from, or the one value.
        args: Vec<Value>,
    },
    /// `match_cast`: checks the type of `value` against the output's type at run
    /// time and binds the symbolic dimensions that appear there first.
    MatchCast(Value),
    /// Reads a 1-D int64 tensor and binds its elements: `dims[i]` is a fresh symbolic variable
    /// or an expression to check. The output is the same tensor. Elements that must be
    /// dimensions are checked to be non-negative where they are used as such.
    MatchShape {
        /// 1-D (or scalar) int64 tensor, or an integer.
        value: Value,
        /// One expression per element.
        dims: Vec<Expr>,
    },
}

/// Operations on values of data types. Pattern matching is branches on tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOp {
    /// A value of the constructor from its fields.
    Construct,
    /// Whether the constructor made the value: a bool that is no tensor.
    Is,
    /// A field of a value that the constructor made.
    Field(usize),
}

/// An operand or result that is not a tensor, as Relax's leaf expressions (`ShapeExpr`,
/// `PrimValue`, `StringImm`, `DataTypeImm`, `GlobalVar`).
#[derive(Clone, Debug, PartialEq)]
pub enum LeafExpr {
    /// A shape.
    Shape(Vec<Expr>),
    /// An integer.
    Int(Expr),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Str(String),
    /// An element type.
    DType(DType),
    /// A graph function of the module.
    Func(FuncId),
    /// Nothing, in Python `None`.
    Null,
    /// The state of the virtual machine, an argument of some builtins.
    VmState,
}

/// ONNX-style loop: runs while the trip count is not reached and the condition holds.
/// Outputs: the final carried values, then the stacked scan values (axis 0 = iteration).
#[derive(Clone, Debug)]
pub struct Loop {
    /// Most iterations: int64 scalar tensor.
    pub max_trips: Option<Value>,
    /// Condition before the first iteration: bool scalar tensor.
    pub cond: Option<Value>,
    /// Initial carried values.
    pub init: Vec<Value>,
    /// Body parameter: iteration number, int64 scalar tensor.
    pub iter: Value,
    /// Body parameter: condition, bool scalar tensor.
    pub cond_in: Value,
    /// Body parameters: carried values.
    pub carried: Vec<Value>,
    /// Results: the next condition, the next carried values, then one value per scan output.
    pub body: Body,
}

/// Type of a tensor (Relax `TensorStructInfo`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<Expr>,
}

/// Type of a value (Relax `StructInfo`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Tensor of known rank.
    Tensor(TensorType),
    /// Tensor of unknown rank or element type; no operator takes it before a `match_cast`.
    AnyTensor {
        /// Element type.
        dtype: Option<DType>,
        /// Number of dimensions.
        rank: Option<usize>,
    },
    /// Shape value.
    Shape(Vec<Expr>),
    /// Shape of unknown rank.
    AnyShape,
    /// Scalar value.
    Prim(DType),
    /// Tuple.
    Tuple(Vec<Type>),
    /// Closure or function value.
    Func,
    /// Anything else, such as a sequence.
    Object,
}

impl TensorType {
    /// A type.
    pub fn new(dtype: DType, shape: Vec<Expr>) -> TensorType {
        TensorType { dtype, shape }
    }

    /// The shape if all dimensions are constant.
    pub fn const_shape(&self) -> Option<Vec<i64>> {
        self.shape.iter().map(Expr::as_int).collect()
    }
}

impl Type {
    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl Func {
    /// An empty function.
    pub fn new(name: impl Into<String>) -> Func {
        Func {
            name: name.into(),
            syms: PrimaryMap::new(),
            values: PrimaryMap::new(),
            params: vec![],
            is_private: false,
            inline: false,
            result_names: vec![],
            symbolic_shapes: HashMap::new(),
            body: Body::default(),
        }
    }

    /// Adds a value.
    pub fn new_value(&mut self, name: impl Into<String>, ty: Type) -> Value {
        self.values.push(ValueData { name: name.into(), ty })
    }

    /// Adds a symbolic dimension.
    pub fn new_sym(&mut self, name: impl Into<Arc<str>>) -> Var {
        self.syms.push(VarData { name: name.into(), dtype: DType::I64 })
    }

    /// The tensor type of a value.
    ///
    /// # Panics
    /// When the value is not a tensor. The verifier excludes that for operands of operators.
    pub fn tensor(&self, value: Value) -> &TensorType {
        self.values[value].ty.as_tensor().expect("a tensor value")
    }
}

impl FuncData {
    /// The global symbol.
    pub fn name(&self) -> &str {
        match self {
            FuncData::Graph(f) => &f.name,
            FuncData::Prim(f) => &f.name,
        }
    }
}
