/** Runs tensor programs: ONNX models, TVMScript, artifacts of `reflex compile`, TVM's executables.
 *
 * Handles are freed by `dispose()`, or when the garbage collector finds them. A session runs one call at a
 * time. Results may be constants of the program, whose data is not to be written. */

export type DType =
  | 'float16' | 'float32' | 'float64' | 'bfloat16'
  | 'int8' | 'int16' | 'int32' | 'int64'
  | 'uint8' | 'uint16' | 'uint32' | 'uint64' | 'bool';

/** Elements; Uint16Array has the bits of float16 and bfloat16, Uint8Array those of bool. */
export type TypedArray =
  | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

/** Elements in row-major order with a shape. As an argument it is read in place; `data` of a result is the
 * library's memory, if it is 4 KiB or more. */
export class Tensor {
  /** `shape` is that of one dimension, and `dtype` that of the array, where they are not given. */
  constructor(data: TypedArray, shape?: number[], dtype?: DType);
  readonly data: TypedArray;
  readonly shape: number[];
  readonly dtype: DType;
  /** Frees the library's memory now; `data` is empty afterwards. */
  dispose(): void;
}

/** A packed function of any language. It runs on the thread that calls it, or on that of JavaScript. */
export type PackedFunction = (...args: Value[]) => Value;

/** A value of another type, such as a map, which can be passed on. */
export interface Opaque { }

/** Whole numbers are integers of programs, others are floats; large integers are BigInt. A typed array as
 * an argument is a tensor of one dimension, an array is a tuple. */
export type Value =
  | null | undefined | boolean | number | bigint | string | Tensor | TypedArray | Value[] | PackedFunction | Opaque;

/** A failure in the library or in a packed function; JavaScript's errors have their `name` as `kind`. */
export class ReflexError extends Error {
  readonly kind: string;
  readonly status: 'io' | 'model' | 'unsupported' | 'input' | 'compile' | 'run' | 'cancelled' | 'deadline' | 'fuel'
    | 'stack' | 'internal';
  /** A line for each function of the program that was active, innermost first. */
  readonly backtrace: string;
}

export interface EngineOptions {
  /** Threads for parallel kernels, the caller's included. */
  threads?: number;
  device?: string;
  kernelCache?: string;
  /** Such as "threshold=10", or "off". */
  tier?: string;
  precision?: 'f32' | 'f32-fast' | 'bf16';
  optimizeFor?: 'speed' | 'size';
  /** Symbolic dimensions of inputs that are constants, such as "batch=1,height=320". */
  dims?: string;
}

export class Engine {
  constructor(options?: EngineOptions);
  /** `.onnx` and `.py` are compiled, `.so` is opened, which runs machine code of its author's choice. */
  load(path: string): Program;
  loadBytes(format: 'onnx' | 'script' | 'library' | 'relay' | 'nodes' | 'torch', bytes: Uint8Array): Program;
  dispose(): void;
}

export interface TensorInfo {
  name: string;
  /** null where the program does not say. */
  dtype: DType | null;
  /** A name stands for a dimension that each call chooses. */
  shape: (number | string)[];
}

export class Program {
  private constructor();
  readonly functions: string[];
  signature(name?: string): { inputs: TensorInfo[]; outputs: TensorInfo[] };
  /** Writes a library that `load` and TVM open. */
  save(path: string): void;
  session(mode?: 'tiered' | 'bytecode' | 'compiled'): Session;
  dispose(): void;
}

export class Session {
  private constructor();
  call(name: string, ...args: Value[]): Value;
  /** Calls on another thread. Tensors are copied; functions among the arguments run on this thread. */
  callAsync(name: string, ...args: Value[]): Promise<Value>;
  /** Calls until nothing more is compiled, and returns the number of calls. */
  warmUp(name: string, ...args: Value[]): number;
  /** A unit for each function entered and each backward jump; null is no limit. */
  setFuel(fuel: number | bigint | null): void;
  /** Makes runs fail that go on for longer than so many milliseconds from now; null is no limit. */
  setTimeout(milliseconds: number | null): void;
  canceller(): Canceller;
  dispose(): void;
}

/** Stops the calls of a session, such as one that was made by `callAsync`. */
export class Canceller {
  private constructor();
  cancel(): void;
  reset(): void;
  dispose(): void;
}

/** Registers a packed function, which programs and other languages find by name. */
export function registerFunction(name: string, body: PackedFunction): void;
/** The packed function that programs find under a name. */
export function getFunction(name: string): PackedFunction;
export const version: string;
