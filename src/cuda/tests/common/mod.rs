//! The stand-in for the driver in a test's process, and kernels in PTX.

use std::path::PathBuf;

use libloading::Library;

/// The stand-in, which cargo builds beside the tests.
pub fn stand_in() -> PathBuf {
    let test = std::env::current_exe().expect("the test's path");
    let path = test.with_file_name("libcuda.so");
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

#[allow(dead_code, reason = "not every test's own process loads it")]
/// Makes the stand-in the process's driver: who asks for the driver's name gets it, as it is open.
pub fn load_stand_in() {
    // SAFETY: the library has no constructors.
    let library = unsafe { Library::new(stand_in()) }.expect("the stand-in opens");
    std::mem::forget(library);
}

/// `to[i] += from[i]` for n int32, in one dimension of blocks of 64.
pub const ADD: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 to, .param .u64 from, .param .u64 n) {
    .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [to];
    ld.param.u64 %rd2, [from];
    ld.param.u64 %rd3, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    shl.b32 %r3, %r1, 6;
    add.s32 %r4, %r3, %r2;
    cvt.u64.u32 %rd4, %r4;
    setp.ge.s64 %p1, %rd4, %rd3;
    @%p1 bra $DONE;
    shl.b64 %rd5, %rd4, 2;
    add.s64 %rd6, %rd1, %rd5;
    add.s64 %rd7, %rd2, %rd5;
    ld.global.u32 %r5, [%rd6];
    ld.global.u32 %r6, [%rd7];
    add.s32 %r7, %r5, %r6;
    st.global.u32 [%rd6], %r7;
$DONE:
    ret;
}
";
