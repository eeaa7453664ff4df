/** Runs artifacts of `reflex compile` for WebAssembly, in browsers and where their interfaces are.
 *
 * Handles are freed by `dispose()` (and `Symbol.dispose`); there is no garbage collection of them. One thread, which calls
 * block: a page that must not wait runs this in a worker. */

export type DType =
  | 'float16' | 'float32' | 'float64' | 'bfloat16'
  | 'int8' | 'int16' | 'int32' | 'int64'
  | 'uint8' | 'uint16' | 'uint32' | 'uint64' | 'bool';

/** Elements; Uint16Array has the bits of float16 and bfloat16, Uint8Array those of bool. */
export type TypedArray =
  | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

/** Elements in row-major order with a shape; they are copied into calls and out of them. */
export class Tensor {
  /** `shape` is that of one dimension, and `dtype` that of the array, where they are not given. */
  constructor(data: TypedArray, shape?: number[], dtype?: DType);
  readonly data: TypedArray;
  readonly shape: number[];
  readonly dtype: DType;
}

/** Whole numbers are integers of programs, others are floats; large integers are BigInt. A typed array as
 * an argument is a tensor of one dimension, an array is a tuple. */
export type Value = null | undefined | boolean | number | bigint | string | Tensor | TypedArray | Value[];

/** A failure in the runtime. */
export class ReflexError extends Error {
  readonly kind: string;
  readonly status: 'io' | 'model' | 'unsupported' | 'input' | 'compile' | 'run' | 'cancelled' | 'deadline' | 'fuel'
    | 'stack' | 'internal';
}

export interface ServeOptions {
  /** Open artifacts that clients upload, which runs code of their choice in this page. */
  allowCode?: boolean;
  /** Sessions to serve, one after the other. */
  sessions?: number;
  /** Is told the client's key when a session begins. */
  onClient?: (key: string) => void;
}

export class Engine {
  private constructor();
  /** The bytes of a `.wasm` of `reflex compile`, whose code is run. */
  load(artifact: ArrayBuffer | ArrayBufferView): Program;
  /** Serves clients of TVM's RPC at a proxy (`reflex rpc-proxy`, or TVM's), such as `ws://127.0.0.1:9190/ws`. */
  serve(url: string, key: string, options?: ServeOptions): Promise<void>;
  dispose(): void;
}

export class Program {
  private constructor();
  session(): Session;
  dispose(): void;
}

export class Session {
  private constructor();
  call(name: string, ...args: Value[]): Value;
  /** Calls and backward jumps that the session may still make; `null` for no limit. */
  setFuel(fuel: number | bigint | null): void;
  dispose(): void;
}

type Source = BufferSource | WebAssembly.Module | Response;

/** The runtime of `reflex.wasm`; `environment` has variables such as REFLEX_TIER. */
export function start(source: Source | PromiseLike<Source>, options?: { environment?: Record<string, string> }): Promise<Engine>;

/** Whether artifacts for `wasm+relaxed-simd` run here: relaxed SIMD, whose multiply-adds round once. */
export function hasFusedRelaxedMadd(): boolean;
