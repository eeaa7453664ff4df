; What all kernels share: the checks of tensor arguments, and cold paths that compose a message and set the calling
; thread's error. A process compiles this text once for a target, and each object has a copy of its machine code.
; For WebAssembly, every module starts as a copy of this text.

%DLTensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 } ; data, device, id, ndim, dtype, shape, strides, offset
%Any = type { i32, i32, i64 } ; type index, padding, payload

@reflex.got = private unnamed_addr constant [7 x i8] c", got \00"
@reflex.lanes = private unnamed_addr constant [2 x i8] c"x\00"
@reflex.type = private unnamed_addr constant [12 x i8] c"type index \00"
@reflex.int = private unnamed_addr constant [4 x i8] c"int\00"
@reflex.uint = private unnamed_addr constant [5 x i8] c"uint\00"
@reflex.float = private unnamed_addr constant [6 x i8] c"float\00"
@reflex.bfloat = private unnamed_addr constant [7 x i8] c"bfloat\00"
@reflex.bool = private unnamed_addr constant [5 x i8] c"bool\00"
@reflex.code = private unnamed_addr constant [26 x i8] c"a type of DLPack code and\00"
@reflex.none = private unnamed_addr constant [5 x i8] c"None\00"
@reflex.str = private unnamed_addr constant [9 x i8] c"a string\00"
@reflex.array = private unnamed_addr constant [9 x i8] c"an array\00"
@reflex.shape = private unnamed_addr constant [8 x i8] c"a shape\00"
@reflex.tensor = private unnamed_addr constant [9 x i8] c"a tensor\00"
@reflex.empty = private unnamed_addr constant [1 x i8] zeroinitializer
@reflex.range = private unnamed_addr constant [33 x i8] c" is out of range for an axis of \00"
@reflex.IndexError = private unnamed_addr constant [11 x i8] c"IndexError\00"
@reflex.TypeError = private unnamed_addr constant [10 x i8] c"TypeError\00"
@reflex.ValueError = private unnamed_addr constant [11 x i8] c"ValueError\00"
@reflex.expected = private unnamed_addr constant [10 x i8] c"expected \00"
@reflex.colon = private unnamed_addr constant [12 x i8] c": expected \00"
@reflex.dimensions = private unnamed_addr constant [18 x i8] c" dimensions, got \00"
@reflex.dimension = private unnamed_addr constant [11 x i8] c"dimension \00"
@reflex.stride = private unnamed_addr constant [21 x i8] c"stride of dimension \00"
@reflex.extent = private unnamed_addr constant [27 x i8] c": expected an extent, got \00"
@reflex.cpu = private unnamed_addr constant [47 x i8] c"expected a tensor on the CPU, got device type \00"
@reflex.tensor_got = private unnamed_addr constant [24 x i8] c"expected a tensor, got \00"
@reflex.tensor_null = private unnamed_addr constant [38 x i8] c"expected a tensor, got a null pointer\00"
@reflex.data_null = private unnamed_addr constant [25 x i8] c"the data pointer is null\00"

declare void @TVMFFIErrorSetRaisedFromCStrParts(ptr, ptr, i32)

; The decimal digits of %value, NUL-terminated, at the end of the 24 bytes at %buffer.
define internal ptr @reflex.decimal(i64 %value, ptr %buffer) cold noinline optnone {
entry:
  %end = getelementptr i8, ptr %buffer, i64 23
  store i8 0, ptr %end
  %negative = icmp slt i64 %value, 0
  %minus = sub i64 0, %value
  %size = select i1 %negative, i64 %minus, i64 %value
  br label %digit

digit:
  %at = phi ptr [ %end, %entry ], [ %next, %digit ]
  %rest = phi i64 [ %size, %entry ], [ %quotient, %digit ]
  %quotient = udiv i64 %rest, 10
  %remainder = urem i64 %rest, 10
  %low = trunc i64 %remainder to i8
  %char = add i8 %low, 48
  %next = getelementptr i8, ptr %at, i64 -1
  store i8 %char, ptr %next
  %more = icmp ne i64 %quotient, 0
  br i1 %more, label %digit, label %sign

sign:
  br i1 %negative, label %dash, label %done

dash:
  %first = getelementptr i8, ptr %next, i64 -1
  store i8 45, ptr %first
  ret ptr %first

done:
  ret ptr %next
}

; "%message"
define internal i32 @reflex.fail(ptr %kind, ptr %message) cold noinline optnone {
  %parts = alloca ptr
  store ptr %message, ptr %parts
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr %kind, ptr %parts, i32 1)
  ret i32 -1
}

; "%message%got"
define internal i32 @reflex.fail_int(ptr %kind, ptr %message, i64 %got) cold noinline optnone {
  %buffer = alloca [24 x i8]
  %digits = call ptr @reflex.decimal(i64 %got, ptr %buffer)
  %parts = alloca [2 x ptr]
  store ptr %message, ptr %parts
  %p1 = getelementptr ptr, ptr %parts, i64 1
  store ptr %digits, ptr %p1
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr %kind, ptr %parts, i32 2)
  ret i32 -1
}

; "%message%expected, got %got"
define internal i32 @reflex.fail_expected(ptr %kind, ptr %message, i64 %expected, i64 %got) cold noinline optnone {
  %buffer = alloca [24 x i8]
  %digits = call ptr @reflex.decimal(i64 %expected, ptr %buffer)
  %buffer2 = alloca [24 x i8]
  %digits2 = call ptr @reflex.decimal(i64 %got, ptr %buffer2)
  %parts = alloca [4 x ptr]
  store ptr %message, ptr %parts
  %p1 = getelementptr ptr, ptr %parts, i64 1
  store ptr %digits, ptr %p1
  %p2 = getelementptr ptr, ptr %parts, i64 2
  store ptr @reflex.got, ptr %p2
  %p3 = getelementptr ptr, ptr %parts, i64 3
  store ptr %digits2, ptr %p3
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr %kind, ptr %parts, i32 4)
  ret i32 -1
}

; "%prefix%message" and the name of a DLDataType
define internal i32 @reflex.fail_dtype(ptr %prefix, ptr %message, i32 %dtype) cold noinline optnone {
entry:
  %code = and i32 %dtype, 255
  %bits32 = lshr i32 %dtype, 8
  %bits8 = and i32 %bits32, 255
  %bits = zext i32 %bits8 to i64
  %lanes32 = lshr i32 %dtype, 16
  %lanes = zext i32 %lanes32 to i64
  %buffer = alloca [24 x i8]
  %buffer2 = alloca [24 x i8]
  %parts = alloca [6 x ptr]
  store ptr %prefix, ptr %parts
  %p0 = getelementptr ptr, ptr %parts, i64 1
  store ptr %message, ptr %p0
  switch i32 %code, label %other [
    i32 0, label %known
    i32 1, label %unsigned
    i32 2, label %float
    i32 4, label %bfloat
    i32 6, label %bool
  ]
unsigned:
  br label %known
float:
  br label %known
bfloat:
  br label %known
bool:
  br label %known
other:
  br label %known
known:
  %name = phi ptr [ @reflex.int, %entry ], [ @reflex.uint, %unsigned ], [ @reflex.float, %float ], [ @reflex.bfloat, %bfloat ], [ @reflex.bool, %bool ], [ @reflex.code, %other ]
  %p1 = getelementptr ptr, ptr %parts, i64 2
  store ptr %name, ptr %p1
  %digits = call ptr @reflex.decimal(i64 %bits, ptr %buffer)
  %isbool = icmp eq i32 %code, 6
  %width = select i1 %isbool, ptr @reflex.empty, ptr %digits
  %p2 = getelementptr ptr, ptr %parts, i64 3
  store ptr %width, ptr %p2
  %p3 = getelementptr ptr, ptr %parts, i64 4
  store ptr @reflex.lanes, ptr %p3
  %digits2 = call ptr @reflex.decimal(i64 %lanes, ptr %buffer2)
  %p4 = getelementptr ptr, ptr %parts, i64 5
  store ptr %digits2, ptr %p4
  %scalar = icmp eq i64 %lanes, 1
  %count = select i1 %scalar, i32 4, i32 6
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.TypeError, ptr %parts, i32 %count)
  ret i32 -1
}

; "%prefix%message" and what a tvm-ffi value holds
define internal i32 @reflex.fail_type(ptr %prefix, ptr %message, i32 %index) cold noinline optnone {
entry:
  %parts = alloca [4 x ptr]
  %buffer = alloca [24 x i8]
  store ptr %prefix, ptr %parts
  %p0 = getelementptr ptr, ptr %parts, i64 1
  store ptr %message, ptr %p0
  %p1 = getelementptr ptr, ptr %parts, i64 2
  %p2 = getelementptr ptr, ptr %parts, i64 3
  %wide = sext i32 %index to i64
  switch i32 %index, label %other [
    i32 0, label %none
    i32 1, label %int
    i32 2, label %bool
    i32 3, label %float
    i32 8, label %str
    i32 11, label %str
    i32 65, label %str
    i32 69, label %shape
    i32 7, label %tensor
    i32 70, label %tensor
    i32 71, label %array
  ]
none:
  br label %named
int:
  br label %named
bool:
  br label %named
float:
  br label %named
str:
  br label %named
shape:
  br label %named
tensor:
  br label %named
array:
  br label %named
named:
  %name = phi ptr [ @reflex.none, %none ], [ @reflex.int, %int ], [ @reflex.bool, %bool ], [ @reflex.float, %float ], [ @reflex.str, %str ], [ @reflex.shape, %shape ], [ @reflex.tensor, %tensor ], [ @reflex.array, %array ]
  store ptr %name, ptr %p1
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.TypeError, ptr %parts, i32 3)
  ret i32 -1
other:
  store ptr @reflex.type, ptr %p1
  %digits = call ptr @reflex.decimal(i64 %wide, ptr %buffer)
  store ptr %digits, ptr %p2
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.TypeError, ptr %parts, i32 4)
  ret i32 -1
}

; "%prefix%a%n%b%m%c%k", of which the first %count parts
define internal i32 @reflex.fail_parts(ptr %kind, i32 %count, ptr %prefix, ptr %a, i64 %n, ptr %b, i64 %m, ptr %c, i64 %k) cold noinline optnone {
  %buffer = alloca [24 x i8]
  %digits = call ptr @reflex.decimal(i64 %n, ptr %buffer)
  %buffer2 = alloca [24 x i8]
  %digits2 = call ptr @reflex.decimal(i64 %m, ptr %buffer2)
  %buffer3 = alloca [24 x i8]
  %digits3 = call ptr @reflex.decimal(i64 %k, ptr %buffer3)
  %parts = alloca [7 x ptr]
  store ptr %prefix, ptr %parts
  %p1 = getelementptr ptr, ptr %parts, i64 1
  store ptr %a, ptr %p1
  %p2 = getelementptr ptr, ptr %parts, i64 2
  store ptr %digits, ptr %p2
  %p3 = getelementptr ptr, ptr %parts, i64 3
  store ptr %b, ptr %p3
  %p4 = getelementptr ptr, ptr %parts, i64 4
  store ptr %digits2, ptr %p4
  %p5 = getelementptr ptr, ptr %parts, i64 5
  store ptr %c, ptr %p5
  %p6 = getelementptr ptr, ptr %parts, i64 6
  store ptr %digits3, ptr %p6
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr %kind, ptr %parts, i32 %count)
  ret i32 -1
}

; The text in front of messages about the tensor of an entry
define internal ptr @reflex.prefix(ptr %description, ptr %entry_of) cold noinline optnone {
  %at = getelementptr i64, ptr %entry_of, i64 4
  %bytes = load i64, ptr %at
  %prefix = getelementptr i8, ptr %description, i64 %bytes
  ret ptr %prefix
}

; Checks the tensors among %args as %description says (reflex_tir::argument_checks), and writes their data pointers
; and the extents that have a place to the words at %written.
define internal i32 @reflex.check_tensors(ptr %args, ptr %description, ptr %written) noinline {
entry:
  %tensors = load i64, ptr %description
  %first = getelementptr i64, ptr %description, i64 1
  br label %next_tensor

next_tensor:
  %number = phi i64 [ 0, %entry ], [ %following, %usable ]
  %entry_of = phi ptr [ %first, %entry ], [ %dim, %usable ]
  %any_tensor = icmp slt i64 %number, %tensors
  br i1 %any_tensor, label %argument, label %repeats

argument:
  %position = load i64, ptr %entry_of
  %rank_at = getelementptr i64, ptr %entry_of, i64 1
  %rank = load i64, ptr %rank_at
  %dtype_at = getelementptr i64, ptr %entry_of, i64 2
  %dtype64 = load i64, ptr %dtype_at
  %dtype = trunc i64 %dtype64 to i32
  %dims = getelementptr i64, ptr %entry_of, i64 5
  %argument_at = getelementptr %Any, ptr %args, i64 %position
  %type = load i32, ptr %argument_at
  %is_object = icmp eq i32 %type, 70
  %is_bare = icmp eq i32 %type, 7
  %is_tensor = or i1 %is_object, %is_bare
  br i1 %is_tensor, label %pointer, label %no_tensor

pointer:
  %payload_at = getelementptr %Any, ptr %argument_at, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  %is_null = icmp eq ptr %payload, null
  br i1 %is_null, label %null_tensor, label %header

header:
  %inner = getelementptr i8, ptr %payload, i64 24
  %dl = select i1 %is_object, ptr %inner, ptr %payload
  %ndim_at = getelementptr %DLTensor, ptr %dl, i64 0, i32 3
  %ndim32 = load i32, ptr %ndim_at
  %ndim = sext i32 %ndim32 to i64
  %same_rank = icmp eq i64 %ndim, %rank
  br i1 %same_rank, label %of_rank, label %other_rank

of_rank:
  %given_dtype_at = getelementptr %DLTensor, ptr %dl, i64 0, i32 4
  %given_dtype = load i32, ptr %given_dtype_at
  %same_dtype = icmp eq i32 %given_dtype, %dtype
  br i1 %same_dtype, label %of_dtype, label %other_dtype

of_dtype:
  %device_at = getelementptr %DLTensor, ptr %dl, i64 0, i32 1
  %device = load i32, ptr %device_at
  %on_cpu = icmp eq i32 %device, 1
  br i1 %on_cpu, label %here, label %elsewhere

here:
  %shape_at = getelementptr %DLTensor, ptr %dl, i64 0, i32 5
  %shape = load ptr, ptr %shape_at
  br label %next_dim

next_dim:
  %d = phi i64 [ 0, %here ], [ %d_following, %dim_fits ]
  %dim = phi ptr [ %dims, %here ], [ %dim_following, %dim_fits ]
  %elements = phi i64 [ 1, %here ], [ %product, %dim_fits ]
  %any_dim = icmp slt i64 %d, %rank
  br i1 %any_dim, label %one_dim, label %strides

one_dim:
  %given_at = getelementptr i64, ptr %shape, i64 %d
  %given = load i64, ptr %given_at
  %has_place = load i64, ptr %dim
  %known_at = getelementptr i64, ptr %dim, i64 1
  %known = load i64, ptr %known_at
  %is_known = icmp eq i64 %has_place, 0
  br i1 %is_known, label %fixed, label %free

fixed:
  %same_extent = icmp eq i64 %given, %known
  br i1 %same_extent, label %dim_fits, label %other_extent

free:
  %is_extent = icmp sge i64 %given, 0
  br i1 %is_extent, label %keep, label %no_extent

keep:
  %place = getelementptr i64, ptr %written, i64 %known
  store i64 %given, ptr %place
  br label %dim_fits

dim_fits:
  %product = mul i64 %elements, %given
  %d_following = add i64 %d, 1
  %dim_following = getelementptr i64, ptr %dim, i64 2
  br label %next_dim

; Strides are absent or row-major, not counting dimensions of one element or empty tensors. From the last dimension to
; the first; the first one that does not fit is reported.
strides:
  %strides_at = getelementptr %DLTensor, ptr %dl, i64 0, i32 6
  %stride_list = load ptr, ptr %strides_at
  %no_strides = icmp eq ptr %stride_list, null
  %is_empty = icmp eq i64 %elements, 0
  %no_matter = or i1 %no_strides, %is_empty
  br i1 %no_matter, label %data, label %next_stride

next_stride:
  %s = phi i64 [ %rank, %strides ], [ %s_before, %one_stride ]
  %row = phi i64 [ 1, %strides ], [ %row_following, %one_stride ]
  %wrong = phi i64 [ -1, %strides ], [ %wrong_now, %one_stride ]
  %wrong_row = phi i64 [ 0, %strides ], [ %wrong_row_now, %one_stride ]
  %any_stride = icmp sgt i64 %s, 0
  br i1 %any_stride, label %one_stride, label %strides_read

one_stride:
  %s_before = add i64 %s, -1
  %size_at = getelementptr i64, ptr %shape, i64 %s_before
  %size = load i64, ptr %size_at
  %stride_at = getelementptr i64, ptr %stride_list, i64 %s_before
  %stride = load i64, ptr %stride_at
  %is_single = icmp eq i64 %size, 1
  %is_row_major = icmp eq i64 %stride, %row
  %fits = or i1 %is_single, %is_row_major
  %wrong_now = select i1 %fits, i64 %wrong, i64 %s_before
  %wrong_row_now = select i1 %fits, i64 %wrong_row, i64 %row
  %row_following = mul i64 %row, %size
  br label %next_stride

strides_read:
  %all_fit = icmp eq i64 %wrong, -1
  br i1 %all_fit, label %data, label %other_stride

data:
  %base = load ptr, ptr %dl
  %offset_at = getelementptr %DLTensor, ptr %dl, i64 0, i32 7
  %offset = load i64, ptr %offset_at
  %has_data = icmp ne ptr %base, null
  %is_usable = or i1 %has_data, %is_empty
  br i1 %is_usable, label %usable, label %no_data

usable:
  %address = getelementptr i8, ptr %base, i64 %offset
  %data_place = getelementptr i64, ptr %written, i64 %number
  store ptr %address, ptr %data_place
  %following = add i64 %number, 1
  br label %next_tensor

repeats:
  %repeated = load i64, ptr %entry_of
  %first_repeat = getelementptr i64, ptr %entry_of, i64 1
  br label %next_repeat

next_repeat:
  %r = phi i64 [ 0, %repeats ], [ %r_following, %agrees ]
  %repeat = phi ptr [ %first_repeat, %repeats ], [ %repeat_following, %agrees ]
  %any_repeat = icmp slt i64 %r, %repeated
  br i1 %any_repeat, label %one_repeat, label %fine

one_repeat:
  %r_given_place = load i64, ptr %repeat
  %r_given_at = getelementptr i64, ptr %written, i64 %r_given_place
  %r_given = load i64, ptr %r_given_at
  %r_expected_word = getelementptr i64, ptr %repeat, i64 1
  %r_expected_place = load i64, ptr %r_expected_word
  %r_expected_at = getelementptr i64, ptr %written, i64 %r_expected_place
  %r_expected = load i64, ptr %r_expected_at
  %agree = icmp eq i64 %r_given, %r_expected
  br i1 %agree, label %agrees, label %disagrees

agrees:
  %r_following = add i64 %r, 1
  %repeat_following = getelementptr i64, ptr %repeat, i64 4
  br label %next_repeat

fine:
  ret i32 0

no_tensor:
  %no_tensor_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %no_tensor_status = call i32 @reflex.fail_type(ptr %no_tensor_prefix, ptr @reflex.tensor_got, i32 %type)
  ret i32 %no_tensor_status

null_tensor:
  %null_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %null_status = call i32 @reflex.fail_parts(ptr @reflex.TypeError, i32 2, ptr %null_prefix, ptr @reflex.tensor_null, i64 0, ptr null, i64 0, ptr null, i64 0)
  ret i32 %null_status

other_rank:
  %rank_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %rank_status = call i32 @reflex.fail_parts(ptr @reflex.ValueError, i32 5, ptr %rank_prefix, ptr @reflex.expected, i64 %rank, ptr @reflex.dimensions, i64 %ndim, ptr null, i64 0)
  ret i32 %rank_status

other_dtype:
  %dtype_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %dtype_text_at = getelementptr i64, ptr %entry_of, i64 3
  %dtype_text_bytes = load i64, ptr %dtype_text_at
  %dtype_text = getelementptr i8, ptr %description, i64 %dtype_text_bytes
  %dtype_status = call i32 @reflex.fail_dtype(ptr %dtype_prefix, ptr %dtype_text, i32 %given_dtype)
  ret i32 %dtype_status

elsewhere:
  %device_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %device64 = sext i32 %device to i64
  %device_status = call i32 @reflex.fail_parts(ptr @reflex.ValueError, i32 3, ptr %device_prefix, ptr @reflex.cpu, i64 %device64, ptr null, i64 0, ptr null, i64 0)
  ret i32 %device_status

other_extent:
  %extent_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %extent_status = call i32 @reflex.fail_parts(ptr @reflex.ValueError, i32 7, ptr %extent_prefix, ptr @reflex.dimension, i64 %d, ptr @reflex.colon, i64 %known, ptr @reflex.got, i64 %given)
  ret i32 %extent_status

no_extent:
  %no_extent_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %no_extent_status = call i32 @reflex.fail_parts(ptr @reflex.ValueError, i32 5, ptr %no_extent_prefix, ptr @reflex.dimension, i64 %d, ptr @reflex.extent, i64 %given, ptr null, i64 0)
  ret i32 %no_extent_status

other_stride:
  %stride_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %wrong_at = getelementptr i64, ptr %stride_list, i64 %wrong
  %wrong_stride = load i64, ptr %wrong_at
  %stride_status = call i32 @reflex.fail_parts(ptr @reflex.ValueError, i32 7, ptr %stride_prefix, ptr @reflex.stride, i64 %wrong, ptr @reflex.colon, i64 %wrong_row, ptr @reflex.got, i64 %wrong_stride)
  ret i32 %stride_status

no_data:
  %data_prefix = call ptr @reflex.prefix(ptr %description, ptr %entry_of)
  %data_status = call i32 @reflex.fail_parts(ptr @reflex.ValueError, i32 2, ptr %data_prefix, ptr @reflex.data_null, i64 0, ptr null, i64 0, ptr null, i64 0)
  ret i32 %data_status

disagrees:
  %r_prefix_at = getelementptr i64, ptr %repeat, i64 2
  %r_prefix_bytes = load i64, ptr %r_prefix_at
  %r_prefix = getelementptr i8, ptr %description, i64 %r_prefix_bytes
  %r_number_at = getelementptr i64, ptr %repeat, i64 3
  %r_number = load i64, ptr %r_number_at
  %r_status = call i32 @reflex.fail_parts(ptr @reflex.ValueError, i32 7, ptr %r_prefix, ptr @reflex.dimension, i64 %r_number, ptr @reflex.colon, i64 %r_expected, ptr @reflex.got, i64 %r_given)
  ret i32 %r_status
}

; "%message%index is out of range for an axis of %bound", for the first index that is not in
; -%bound .. %bound among the elements from %first, every %step-th, below %count; 0 if all are
define internal i32 @reflex.fail_index_i64(ptr %data, i64 %first, i64 %step, i64 %count, i64 %bound, ptr %message) cold noinline optnone {
entry:
  %twice = shl i64 %bound, 1
  br label %search
search:
  %at = phi i64 [ %first, %entry ], [ %next, %inside ]
  %more = icmp slt i64 %at, %count
  br i1 %more, label %look, label %none
look:
  %address = getelementptr i64, ptr %data, i64 %at
  %value = load i64, ptr %address, align 8
  %shifted = add i64 %value, %bound
  %outside = icmp uge i64 %shifted, %twice
  br i1 %outside, label %found, label %inside
inside:
  %next = add i64 %at, %step
  br label %search
none:
  ret i32 0
found:
  %buffer = alloca [24 x i8]
  %digits = call ptr @reflex.decimal(i64 %value, ptr %buffer)
  %buffer2 = alloca [24 x i8]
  %digits2 = call ptr @reflex.decimal(i64 %bound, ptr %buffer2)
  %parts = alloca [4 x ptr]
  store ptr %message, ptr %parts
  %p1 = getelementptr ptr, ptr %parts, i64 1
  store ptr %digits, ptr %p1
  %p2 = getelementptr ptr, ptr %parts, i64 2
  store ptr @reflex.range, ptr %p2
  %p3 = getelementptr ptr, ptr %parts, i64 3
  store ptr %digits2, ptr %p3
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.IndexError, ptr %parts, i32 4)
  ret i32 -1
}

; "%message%index is out of range for an axis of %bound", for the first index that is not in
; -%bound .. %bound among the elements from %first, every %step-th, below %count; 0 if all are
define internal i32 @reflex.fail_index_i32(ptr %data, i64 %first, i64 %step, i64 %count, i64 %bound, ptr %message) cold noinline optnone {
entry:
  %twice = shl i64 %bound, 1
  br label %search
search:
  %at = phi i64 [ %first, %entry ], [ %next, %inside ]
  %more = icmp slt i64 %at, %count
  br i1 %more, label %look, label %none
look:
  %address = getelementptr i32, ptr %data, i64 %at
  %narrow = load i32, ptr %address, align 4
  %value = sext i32 %narrow to i64
  %shifted = add i64 %value, %bound
  %outside = icmp uge i64 %shifted, %twice
  br i1 %outside, label %found, label %inside
inside:
  %next = add i64 %at, %step
  br label %search
none:
  ret i32 0
found:
  %buffer = alloca [24 x i8]
  %digits = call ptr @reflex.decimal(i64 %value, ptr %buffer)
  %buffer2 = alloca [24 x i8]
  %digits2 = call ptr @reflex.decimal(i64 %bound, ptr %buffer2)
  %parts = alloca [4 x ptr]
  store ptr %message, ptr %parts
  %p1 = getelementptr ptr, ptr %parts, i64 1
  store ptr %digits, ptr %p1
  %p2 = getelementptr ptr, ptr %parts, i64 2
  store ptr @reflex.range, ptr %p2
  %p3 = getelementptr ptr, ptr %parts, i64 3
  store ptr %digits2, ptr %p3
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.IndexError, ptr %parts, i32 4)
  ret i32 -1
}
