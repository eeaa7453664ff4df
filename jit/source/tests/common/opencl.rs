//! An implementation of OpenCL, by the system's library: whichever device comes first.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

type Handle = *mut c_void;

const ALL_DEVICES: u64 = 0xffff_ffff;
const READ_WRITE: u64 = 1;
const BUILD_LOG: c_uint = 0x1183;
const DEVICE_NAME: c_uint = 0x102b;

macro_rules! functions { ($($name:ident: fn($($arg:ty),*) -> $result:ty;)*) => {
    #[allow(non_snake_case)]
    struct Functions { $($name: unsafe extern "C" fn($($arg),*) -> $result,)* }

    impl Functions {
        fn of(library: &Library) -> Functions {
            // SAFETY: OpenCL's functions of these names have these parameters.
            unsafe { Functions { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes()).unwrap(),)* } }
        }
    }
} }

functions! {
    clGetPlatformIDs: fn(c_uint, *mut Handle, *mut c_uint) -> c_int;
    clGetDeviceIDs: fn(Handle, u64, c_uint, *mut Handle, *mut c_uint) -> c_int;
    clGetDeviceInfo: fn(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
    clCreateContext: fn(*const isize, c_uint, *const Handle, *const c_void, *mut c_void, *mut c_int) -> Handle;
    clCreateCommandQueue: fn(Handle, Handle, u64, *mut c_int) -> Handle;
    clCreateProgramWithSource: fn(Handle, c_uint, *const *const c_char, *const usize, *mut c_int) -> Handle;
    clBuildProgram: fn(Handle, c_uint, *const Handle, *const c_char, *const c_void, *mut c_void) -> c_int;
    clGetProgramBuildInfo: fn(Handle, Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
    clCreateKernel: fn(Handle, *const c_char, *mut c_int) -> Handle;
    clCreateBuffer: fn(Handle, u64, usize, *mut c_void, *mut c_int) -> Handle;
    clReleaseMemObject: fn(Handle) -> c_int;
    clReleaseKernel: fn(Handle) -> c_int;
    clReleaseProgram: fn(Handle) -> c_int;
    clSetKernelArg: fn(Handle, c_uint, usize, *const c_void) -> c_int;
    clEnqueueNDRangeKernel: fn(Handle, Handle, c_uint, *const usize, *const usize, *const usize, c_uint, *const c_void, *mut c_void) -> c_int;
    clEnqueueReadBuffer: fn(Handle, Handle, c_uint, usize, usize, *mut c_void, c_uint, *const c_void, *mut c_void) -> c_int;
    clEnqueueWriteBuffer: fn(Handle, Handle, c_uint, usize, usize, *const c_void, c_uint, *const c_void, *mut c_void) -> c_int;
    clFinish: fn(Handle) -> c_int;
}

/// A device with a queue.
pub struct OpenCl {
    f: Functions,
    _library: Library,
    device: Handle,
    context: Handle,
    queue: Handle,
}

/// A program that was built.
pub struct Program(Handle);

impl OpenCl {
    /// The first device of the first platform; none without the library or a device.
    pub fn open() -> Option<OpenCl> {
        // SAFETY: the library is the system's, whose initialisers may run here.
        let library =
            unsafe { Library::open(Some("libOpenCL.so.1"), RTLD_NOW | RTLD_LOCAL) }.ok()?;
        let f = Functions::of(&library);
        let (mut platform, mut device) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (mut count, mut status) = (0, 0);
        // SAFETY: each call gets room for one handle, and handles that were made before.
        unsafe {
            let found = (f.clGetPlatformIDs)(1, &raw mut platform, &raw mut count);
            if found != 0 || count == 0 {
                return None;
            }
            let found =
                (f.clGetDeviceIDs)(platform, ALL_DEVICES, 1, &raw mut device, &raw mut count);
            if found != 0 || count == 0 {
                return None;
            }
            let (none, nothing) = (std::ptr::null(), std::ptr::null_mut());
            let context = (f.clCreateContext)(
                std::ptr::null(),
                1,
                &raw const device,
                none,
                nothing,
                &raw mut status,
            );
            assert_eq!(status, 0);
            let queue = (f.clCreateCommandQueue)(context, device, 0, &raw mut status);
            assert_eq!(status, 0);
            Some(OpenCl { f, _library: library, device, context, queue })
        }
    }

    /// The name of the device.
    pub fn name(&self) -> String {
        let (mut bytes, mut size) = (vec![0_u8; 256], 0);
        // SAFETY: there is room for the bytes that the call is told of.
        unsafe {
            let room = bytes.as_mut_ptr().cast();
            (self.f.clGetDeviceInfo)(self.device, DEVICE_NAME, 256, room, &raw mut size);
        }
        String::from_utf8_lossy(&bytes[..size.saturating_sub(1).min(256)]).into_owned()
    }

    /// Builds a text, or returns what the compiler says.
    pub fn build(&self, text: &str, options: &str) -> Result<Program, String> {
        let (source, options) = (CString::new(text).unwrap(), CString::new(options).unwrap());
        let (pointer, mut status) = (source.as_ptr(), 0);
        let (none, nothing) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: the texts live through the calls, and the handles were made before.
        unsafe {
            let program = (self.f.clCreateProgramWithSource)(
                self.context,
                1,
                &raw const pointer,
                std::ptr::null(),
                &raw mut status,
            );
            assert_eq!(status, 0);
            let built = (self.f.clBuildProgram)(
                program,
                1,
                &raw const self.device,
                options.as_ptr(),
                none,
                nothing,
            );
            if built == 0 {
                return Ok(Program(program));
            }
            let mut log = vec![0_u8; 1 << 16];
            let room = log.as_mut_ptr().cast();
            let mut size = 0;
            let of = (program, self.device);
            (self.f.clGetProgramBuildInfo)(of.0, of.1, BUILD_LOG, 1 << 16, room, &raw mut size);
            log.truncate(size.min(1 << 16));
            Err(format!("{built}: {}", String::from_utf8_lossy(&log)))
        }
    }

    /// Memory of the device with these bytes.
    pub fn buffer(&self, bytes: &[u8]) -> Handle {
        let mut status = 0;
        let size = bytes.len().max(1);
        // SAFETY: the bytes are read before the second call returns.
        unsafe {
            let (context, host) = (self.context, std::ptr::null_mut());
            let buffer = (self.f.clCreateBuffer)(context, READ_WRITE, size, host, &raw mut status);
            assert_eq!(status, 0);
            if !bytes.is_empty() {
                let (from, none, event) =
                    (bytes.as_ptr().cast(), std::ptr::null(), std::ptr::null_mut());
                let size = bytes.len();
                let written = (self.f.clEnqueueWriteBuffer)(
                    self.queue, buffer, 1, 0, size, from, 0, none, event,
                );
                assert_eq!(written, 0);
            }
            buffer
        }
    }

    /// Reads and releases memory of the device.
    pub fn take(&self, buffer: Handle, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        // SAFETY: there is room for the bytes, which are there when the call returns.
        unsafe {
            if size > 0 {
                let (to, none, event) =
                    (bytes.as_mut_ptr().cast(), std::ptr::null(), std::ptr::null_mut());
                let read = (self.f.clEnqueueReadBuffer)(
                    self.queue, buffer, 1, 0, size, to, 0, none, event,
                );
                assert_eq!(read, 0);
            }
            (self.f.clReleaseMemObject)(buffer);
        }
        bytes
    }

    /// Runs a kernel to its end on buffers and words.
    pub fn launch(
        &self,
        program: &Program,
        name: &str,
        (grid, block): ([u32; 3], [u32; 3]),
        buffers: &[Handle],
        words: &[u64],
    ) {
        let (name, mut status) = (CString::new(name).unwrap(), 0);
        let local = block.map(|n| n as usize);
        let global: [usize; 3] = std::array::from_fn(|i| grid[i] as usize * local[i]);
        // SAFETY: the arguments live through the calls, and are as many as the kernel has.
        unsafe {
            let kernel = (self.f.clCreateKernel)(program.0, name.as_ptr(), &raw mut status);
            assert_eq!(status, 0, "{name:?}");
            let buffers = buffers.iter().map(|b| std::ptr::from_ref(b).cast());
            let words = words.iter().map(|w| std::ptr::from_ref(w).cast());
            for (number, value) in buffers.chain(words).enumerate() {
                let set = (self.f.clSetKernelArg)(kernel, number as c_uint, 8, value);
                assert_eq!(set, 0, "{name:?}, argument {number}");
            }
            let (none, event) = (std::ptr::null(), std::ptr::null_mut());
            let offset = std::ptr::null();
            let (global, local) = (global.as_ptr(), local.as_ptr());
            let launched = (self.f.clEnqueueNDRangeKernel)(
                self.queue, kernel, 3, offset, global, local, 0, none, event,
            );
            assert_eq!(launched, 0, "{name:?}");
            assert_eq!((self.f.clFinish)(self.queue), 0, "{name:?}");
            (self.f.clReleaseKernel)(kernel);
        }
    }

    /// Forgets a program.
    pub fn release(&self, program: Program) {
        // SAFETY: the program was made here, and no kernel of it is left.
        unsafe { (self.f.clReleaseProgram)(program.0) };
    }
}
