// Reflex in a browser: artifacts of `reflex compile` for WebAssembly, run by the interpreter, and sessions of RPC.
// index.d.ts says what each function takes.

import { instantiate } from './host.mjs';

export { hasFusedRelaxedMadd } from './host.mjs';

const FORMAT_LIBRARY = 2;
const MODE_BYTECODE = 1;
const STATUSES = ['ok', 'io', 'model', 'unsupported', 'input', 'compile', 'run', 'cancelled', 'deadline', 'fuel',
  'stack', 'internal'];
const KINDS = ['none', 'int', 'bool', 'float', 'string', 'tensor', 'tuple', 'shape', 'function', 'other'];
/** Bytes of a value, and of a `DLDataType`. */
const [VALUE, DATA_TYPE] = [16, 8];
/** Offsets in a `DLTensor` where pointers have 4 bytes. */
const [DATA, NDIM, DTYPE, SHAPE, BYTE_OFFSET] = [0, 12, 16, 20, 32];

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
  bool: Uint8Array, float16: Uint16Array, bfloat16: Uint16Array,
};
const CODES = { int: 0, uint: 1, float: 2, bfloat: 4, bool: 6 };
const DTYPES = new Map();
for (const [name, array] of Object.entries(ARRAYS)) {
  if (!DTYPES.has(array)) DTYPES.set(array, name);
}

const utf8 = new TextEncoder();
const text = new TextDecoder();

export class ReflexError extends Error {
  constructor(kind, message, status) {
    super(message);
    this.kind = kind;
    this.status = STATUSES[status];
  }

  get name() {
    return 'ReflexError';
  }
}

export class Tensor {
  constructor(data, shape = [data.length], dtype = DTYPES.get(data.constructor)) {
    this.data = data;
    this.shape = shape;
    this.dtype = dtype;
  }
}

function dataType(name) {
  const [, kind, bits] = /^([a-z]+)(\d*)$/.exec(name) ?? [];
  if (!Object.hasOwn(ARRAYS, name)) throw new TypeError(`${name} is no element type; there are ${Object.keys(ARRAYS).join(', ')}`);
  return { code: CODES[kind], bits: bits === '' ? 8 : Number(bits) };
}

function typeName(code, bits) {
  const kind = Object.keys(CODES).find((name) => CODES[name] === code);
  return kind === 'bool' ? kind : `${kind}${bits}`;
}

/** The memory of the runtime. Views are made anew, since memory grows. */
class Runtime {
  #blocks = [];

  constructor(exports) {
    this.exports = exports;
  }

  get view() {
    return new DataView(this.exports.memory.buffer);
  }

  /** Memory until the end of `within`. */
  allocate(size, align = 16) {
    const at = this.exports.reflex_allocate(size, align);
    if (at === 0 && size > 0) throw new ReflexError('MemoryError', `no memory for ${size} bytes`, STATUSES.indexOf('run'));
    this.#blocks.push([at, size, align]);
    return at;
  }

  bytes(data) {
    const at = this.allocate(data.byteLength, 64);
    new Uint8Array(this.exports.memory.buffer, at).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return at;
  }

  string(value) {
    return this.bytes(utf8.encode(`${value}\0`));
  }

  text(at) {
    const bytes = new Uint8Array(this.exports.memory.buffer, at);
    return text.decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  within(f) {
    const before = this.#blocks.length;
    try {
      return f();
    } finally {
      for (const block of this.#blocks.splice(before).reverse()) this.exports.reflex_deallocate(...block);
    }
  }

  check(status) {
    if (status === 0) return;
    const [kind, message] = [this.exports.reflex_error_kind(), this.exports.reflex_error_message()];
    throw new ReflexError(this.text(kind), this.text(message), status);
  }

  /** What `make` writes to a pointer. */
  made(make) {
    return this.within(() => {
      const out = this.allocate(4);
      this.check(make(out));
      return this.view.getUint32(out, true);
    });
  }

  /** Writes a value; the caller frees it. */
  write(at, value) {
    const { exports } = this;
    if (value === null || value === undefined) return exports.reflex_none(at);
    if (typeof value === 'boolean') return exports.reflex_bool(at, Number(value));
    if (typeof value === 'bigint') return exports.reflex_int(at, value);
    if (typeof value === 'number') {
      return Number.isSafeInteger(value) ? exports.reflex_int(at, BigInt(value)) : exports.reflex_float(at, value);
    }
    if (typeof value === 'string') {
      const encoded = utf8.encode(value);
      return this.within(() => this.check(exports.reflex_string(this.bytes(encoded), encoded.length, at)));
    }
    if (ArrayBuffer.isView(value)) return this.write(at, new Tensor(value));
    if (value instanceof Tensor) return this.#writeTensor(at, value);
    if (Array.isArray(value)) {
      return this.values(value, (items, count) => this.check(exports.reflex_tuple(items, count, at)));
    }
    throw new TypeError(`${value} is no value of a program`);
  }

  #writeTensor(at, { data, shape, dtype }) {
    const { code, bits } = dataType(dtype);
    const count = shape.reduce((product, extent) => product * extent, 1);
    if (count !== data.length) throw new RangeError(`a tensor of the shape [${shape}] has ${count} elements, not ${data.length}`);
    this.within(() => {
      const [type, dims] = [this.allocate(DATA_TYPE), this.bytes(BigInt64Array.from(shape, BigInt))];
      this.view.setUint32(type, code | bits << 8 | 1 << 16, true);
      this.check(this.exports.reflex_tensor(type, dims, shape.length, this.bytes(data), at));
    });
  }

  /** Calls `f` with values, which are freed behind it. */
  values(all, f) {
    return this.within(() => {
      const at = this.allocate(VALUE * Math.max(1, all.length));
      let written = 0;
      try {
        for (const value of all) {
          this.write(at + VALUE * written, value);
          written += 1;
        }
        return f(at, all.length);
      } finally {
        for (let i = 0; i < written; i++) this.exports.reflex_free(at + VALUE * i);
      }
    });
  }

  /** Reads a value, and frees it. */
  take(at) {
    try {
      return this.#read(at);
    } finally {
      this.exports.reflex_free(at);
    }
  }

  #read(at) {
    const { exports } = this;
    const kind = KINDS[exports.reflex_kind(at)];
    const integer = () => {
      const value = this.view.getBigInt64(at + 8, true);
      return Number.isSafeInteger(Number(value)) ? Number(value) : value;
    };
    switch (kind) {
      case 'none': return undefined;
      case 'int': return integer();
      case 'bool': return this.view.getBigInt64(at + 8, true) !== 0n;
      case 'float': return this.view.getFloat64(at + 8, true);
      case 'tensor': return this.#readTensor(exports.reflex_as_tensor(at));
      case 'string': return this.within(() => {
        const out = this.allocate(8);
        this.check(exports.reflex_as_string(at, out, out + 4));
        const [data, size] = [this.view.getUint32(out, true), this.view.getUint32(out + 4, true)];
        return text.decode(new Uint8Array(exports.memory.buffer, data, size));
      });
      case 'tuple': case 'shape': return this.within(() => {
        const item = this.allocate(VALUE);
        return Array.from({ length: Number(exports.reflex_count(at)) }, (_, index) => {
          this.check(exports.reflex_item(at, index, item));
          return this.take(item);
        });
      });
      default: throw new TypeError(`a result of the kind ${kind} has no value in JavaScript`);
    }
  }

  #readTensor(at) {
    const { view } = this;
    const [ndim, dims] = [view.getInt32(at + NDIM, true), view.getUint32(at + SHAPE, true)];
    const shape = Array.from({ length: ndim }, (_, d) => Number(view.getBigInt64(dims + 8 * d, true)));
    const dtype = typeName(view.getUint8(at + DTYPE), view.getUint8(at + DTYPE + 1));
    const start = view.getUint32(at + DATA, true) + Number(view.getBigUint64(at + BYTE_OFFSET, true));
    const count = shape.reduce((product, extent) => product * extent, 1);
    if (!Object.hasOwn(ARRAYS, dtype)) throw new TypeError(`elements of the type ${dtype} have no array in JavaScript`);
    const data = new ARRAYS[dtype](count);
    new Uint8Array(data.buffer).set(new Uint8Array(this.exports.memory.buffer, start, data.byteLength));
    return new Tensor(data, shape, dtype);
  }
}

class Handle {
  #free;
  #raw;

  constructor(runtime, raw, free) {
    this.runtime = runtime;
    this.#raw = raw;
    this.#free = free;
  }

  get raw() {
    if (this.#raw === 0) throw new TypeError('it was disposed of');
    return this.#raw;
  }

  dispose() {
    if (this.#raw !== 0) this.#free(this.#raw);
    this.#raw = 0;
  }
}

if (Symbol.dispose) {
  Handle.prototype[Symbol.dispose] = function () {
    this.dispose();
  };
}

export class Engine extends Handle {
  constructor(runtime) {
    const { exports } = runtime;
    super(runtime, runtime.made((out) => exports.reflex_engine_new(0, out)), exports.reflex_engine_free);
  }

  load(artifact) {
    const { runtime, runtime: { exports } } = this;
    const bytes = ArrayBuffer.isView(artifact) ? artifact : new Uint8Array(artifact);
    const raw = runtime.within(() => {
      const at = runtime.bytes(bytes);
      return runtime.made((out) => exports.reflex_engine_load_bytes(this.raw, FORMAT_LIBRARY, at, bytes.byteLength, out));
    });
    return new Program(runtime, raw, exports.reflex_program_free);
  }

  async serve(url, key, { allowCode = false, sessions = Infinity, onClient = undefined } = {}) {
    for (let served = 0; served < sessions; served++) {
      await serveOnce(this, new WebSocket(url), key, allowCode, onClient);
    }
  }
}

export class Program extends Handle {
  session() {
    const { runtime, runtime: { exports } } = this;
    const raw = runtime.made((out) => exports.reflex_session_new(this.raw, MODE_BYTECODE, out));
    return new Session(runtime, raw, exports.reflex_session_free);
  }
}

export class Session extends Handle {
  call(name, ...args) {
    const { runtime, runtime: { exports } } = this;
    return runtime.values(args, (values, count) => runtime.within(() => {
      const result = runtime.allocate(VALUE);
      runtime.check(exports.reflex_call(this.raw, runtime.string(name), values, count, result));
      return runtime.take(result);
    }));
  }

  setFuel(fuel) {
    const { runtime, runtime: { exports } } = this;
    runtime.check(exports.reflex_set_fuel(this.raw, fuel === null ? (1n << 64n) - 1n : BigInt(fuel)));
  }
}

/** A client's session of RPC over a WebSocket to a proxy. */
class RpcSession extends Handle {
  constructor(engine, allowCode) {
    const { runtime, runtime: { exports } } = engine;
    const raw = runtime.within(() => {
      const folder = runtime.string(`/rpc-${++RpcSession.#number}`);
      return runtime.made((out) => exports.reflex_server_new(engine.raw, folder, Number(allowCode), out));
    });
    super(runtime, raw, exports.reflex_server_free);
  }

  static #number = 0;

  /** Answers to a client's bytes, and whether the session goes on. */
  receive(bytes) {
    const { runtime, runtime: { exports } } = this;
    return runtime.within(() => {
      const [data, out] = [runtime.bytes(bytes), runtime.allocate(12)];
      const status = exports.reflex_server_receive(this.raw, data, bytes.byteLength, out, out + 4, out + 8);
      const [at, size] = [runtime.view.getUint32(out, true), runtime.view.getUint32(out + 4, true)];
      const answers = new Uint8Array(exports.memory.buffer, at, size).slice();
      return { answers, isOpen: status === 0 && runtime.view.getUint8(out + 8) !== 0 };
    });
  }
}

const RPC_MAGIC = 0xff271;
/** Most bytes of a message. */
const MESSAGE = 1 << 20;
const REFUSALS = { 1: 'the key is in use', 2: 'no client came in time' };

/** The head of a connection: a magic word, the length of a key, and the key. */
function greeting(key) {
  const bytes = utf8.encode(`server:${key}`);
  const head = new Uint8Array(8 + bytes.length);
  new DataView(head.buffer).setInt32(0, RPC_MAGIC, true);
  new DataView(head.buffer).setInt32(4, bytes.length, true);
  head.set(bytes, 8);
  return head;
}

/** Serves one client at a proxy; resolves to the client's key when its session has ended. */
function serveOnce(engine, socket, key, allowCode, onClient) {
  return new Promise((resolve, reject) => {
    let [head, client, session] = [new Uint8Array(0), undefined, undefined];
    const end = (error) => {
      session?.dispose();
      socket.close();
      error === undefined ? resolve(client) : reject(error);
    };
    const greeted = (bytes) => {
      const both = new Uint8Array(head.length + bytes.length);
      both.set(head);
      both.set(bytes, head.length);
      head = both;
      const view = new DataView(head.buffer);
      if (head.length >= 4 && view.getInt32(0, true) !== RPC_MAGIC) {
        throw new Error(`the proxy refuses: ${REFUSALS[view.getInt32(0, true) - RPC_MAGIC] ?? 'it speaks another protocol'}`);
      }
      if (head.length < 8 || head.length < 8 + view.getInt32(4, true)) return undefined;
      const start = 8 + view.getInt32(4, true);
      client = text.decode(head.subarray(8, start));
      session = new RpcSession(engine, allowCode);
      onClient?.(client);
      return head.subarray(start);
    };
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => socket.send(greeting(key));
    socket.onerror = () => end(new Error(`no connection to ${socket.url}`));
    socket.onclose = () => end(client === undefined ? new Error(`${socket.url} closed the connection`) : undefined);
    socket.onmessage = ({ data }) => {
      try {
        const bytes = session === undefined ? greeted(new Uint8Array(data)) : new Uint8Array(data);
        if (bytes === undefined || bytes.length === 0) return;
        const { answers, isOpen } = session.receive(bytes);
        for (let at = 0; at < answers.length; at += MESSAGE) socket.send(answers.subarray(at, at + MESSAGE));
        if (!isOpen) end();
      } catch (error) {
        end(error);
      }
    };
  });
}

/** The runtime from `reflex.wasm`: its bytes, its compiled module, or a response that has it, or a promise of one. */
export async function start(source, { environment = {} } = {}) {
  let module = await source;
  if (!(module instanceof WebAssembly.Module)) {
    module = await (module instanceof Response ? WebAssembly.compileStreaming(module) : WebAssembly.compile(module));
  }
  return new Engine(new Runtime(await instantiate(module, environment)));
}
