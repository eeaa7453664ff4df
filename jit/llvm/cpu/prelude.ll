; Cold paths that compose a message and set the calling thread's error.
; Every module starts as a copy of this text.

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

; "%message" and the name of a DLDataType
define internal i32 @reflex.fail_dtype(ptr %message, i32 %dtype) cold noinline optnone {
entry:
  %code = and i32 %dtype, 255
  %bits32 = lshr i32 %dtype, 8
  %bits8 = and i32 %bits32, 255
  %bits = zext i32 %bits8 to i64
  %lanes32 = lshr i32 %dtype, 16
  %lanes = zext i32 %lanes32 to i64
  %buffer = alloca [24 x i8]
  %buffer2 = alloca [24 x i8]
  %parts = alloca [5 x ptr]
  store ptr %message, ptr %parts
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
  %p1 = getelementptr ptr, ptr %parts, i64 1
  store ptr %name, ptr %p1
  %digits = call ptr @reflex.decimal(i64 %bits, ptr %buffer)
  %isbool = icmp eq i32 %code, 6
  %width = select i1 %isbool, ptr @reflex.empty, ptr %digits
  %p2 = getelementptr ptr, ptr %parts, i64 2
  store ptr %width, ptr %p2
  %p3 = getelementptr ptr, ptr %parts, i64 3
  store ptr @reflex.lanes, ptr %p3
  %digits2 = call ptr @reflex.decimal(i64 %lanes, ptr %buffer2)
  %p4 = getelementptr ptr, ptr %parts, i64 4
  store ptr %digits2, ptr %p4
  %scalar = icmp eq i64 %lanes, 1
  %count = select i1 %scalar, i32 3, i32 5
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.TypeError, ptr %parts, i32 %count)
  ret i32 -1
}

; "%message" and what a tvm-ffi value holds
define internal i32 @reflex.fail_type(ptr %message, i32 %index) cold noinline optnone {
entry:
  %parts = alloca [3 x ptr]
  %buffer = alloca [24 x i8]
  store ptr %message, ptr %parts
  %p1 = getelementptr ptr, ptr %parts, i64 1
  %p2 = getelementptr ptr, ptr %parts, i64 2
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
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.TypeError, ptr %parts, i32 2)
  ret i32 -1
other:
  store ptr @reflex.type, ptr %p1
  %digits = call ptr @reflex.decimal(i64 %wide, ptr %buffer)
  store ptr %digits, ptr %p2
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @reflex.TypeError, ptr %parts, i32 3)
  ret i32 -1
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
