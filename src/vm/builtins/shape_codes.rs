//! The codes in the arguments of `match_shape` and `make_shape`, which are TVM's.

/// Codes of `match_shape`: what is done with a dimension.
pub mod match_code {
    /// It equals the constant.
    pub const ASSERT_IMM: i64 = 0;
    /// It is stored in the heap.
    pub const STORE: i64 = 1;
    /// Nothing.
    pub const NO_OP: i64 = 2;
    /// It equals the heap entry.
    pub const ASSERT_LOAD: i64 = 3;
}

/// Codes of `make_shape`: where a dimension comes from.
pub mod make_code {
    /// The constant.
    pub const USE_IMM: i64 = 0;
    /// The heap entry.
    pub const LOAD: i64 = 1;
}
