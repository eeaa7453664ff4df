//! Element types: Reflex's, the server's numbers, and the names in configurations.

use reflex::DType;

/// Type, `TRITONSERVER_DataType`, name in a model's configuration. Strings have no tensor here.
const TYPES: [(DType, u32, &str); 13] = [
    (DType::BOOL, 1, "TYPE_BOOL"),
    (DType::U8, 2, "TYPE_UINT8"),
    (DType::U16, 3, "TYPE_UINT16"),
    (DType::U32, 4, "TYPE_UINT32"),
    (DType::U64, 5, "TYPE_UINT64"),
    (DType::I8, 6, "TYPE_INT8"),
    (DType::I16, 7, "TYPE_INT16"),
    (DType::I32, 8, "TYPE_INT32"),
    (DType::I64, 9, "TYPE_INT64"),
    (DType::F16, 10, "TYPE_FP16"),
    (DType::F32, 11, "TYPE_FP32"),
    (DType::F64, 12, "TYPE_FP64"),
    (DType::BF16, 14, "TYPE_BF16"),
];

/// Returns the type of one of the server's numbers.
pub(crate) fn of_number(number: u32) -> Option<DType> {
    TYPES.iter().find(|row| row.1 == number).map(|row| row.0)
}

/// Returns the server's number of a type.
pub(crate) fn number_of(dtype: DType) -> Option<u32> {
    TYPES.iter().find(|row| row.0 == dtype).map(|row| row.1)
}

/// Returns the name of a type in configurations.
pub(crate) fn name_of(dtype: DType) -> Option<&'static str> {
    TYPES.iter().find(|row| row.0 == dtype).map(|row| row.2)
}
