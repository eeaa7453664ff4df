'use strict';
// Reflex for Node.js: engines, programs, sessions, tensors and packed functions. addon.c has what is
// native; index.d.ts says what each takes.

const addon = require('./reflex.node');

const FORMATS = { onnx: 0, script: 1, library: 2, relay: 3, nodes: 5, torch: 6 };
const MODES = { tiered: 0, bytecode: 1, compiled: 2 };

const DTYPES = new Map([
  [Float32Array, 'float32'], [Float64Array, 'float64'], [Int8Array, 'int8'], [Int16Array, 'int16'],
  [Int32Array, 'int32'], [BigInt64Array, 'int64'], [Uint8Array, 'uint8'], [Uint16Array, 'uint16'],
  [Uint32Array, 'uint32'], [BigUint64Array, 'uint64'],
]);

const STATUSES = ['ok', 'io', 'model', 'unsupported', 'input', 'compile', 'run', 'cancelled', 'deadline', 'fuel',
  'stack', 'internal'];

class ReflexError extends Error {
  constructor(kind, message, status, backtrace) {
    super(message);
    this.kind = kind;
    this.status = STATUSES[status];
    this.backtrace = backtrace;
  }

  get name() {
    return 'ReflexError';
  }
}

class Tensor {
  #owner;

  // `owner` is what the addon gives where the library has the memory.
  constructor(data, shape = [data.length], dtype = DTYPES.get(data.constructor), owner = undefined) {
    this.data = data;
    this.shape = shape;
    this.dtype = dtype;
    this.#owner = owner;
  }

  dispose() {
    if (this.#owner === undefined) return;
    addon.releaseTensor(this.#owner, this.data.buffer);
    this.#owner = undefined;
  }
}

// An array as an argument is a tensor of one dimension.
function argument(value) {
  if (ArrayBuffer.isView(value)) return new Tensor(value);
  return Array.isArray(value) ? value.map(argument) : value;
}

const version = addon.init(Tensor, ReflexError);

function choice(names, name, what) {
  const found = names[name];
  if (found === undefined) throw new TypeError(`${name} is no ${what}; there are ${Object.keys(names).join(', ')}`);
  return found;
}

class Handle {
  constructor(raw) {
    this.raw = raw;
  }

  dispose() {
    addon.dispose(this.raw);
  }
}

// Objects with `using` are disposed of at the end of the block.
if (Symbol.dispose) {
  for (const disposable of [Handle, Tensor]) {
    disposable.prototype[Symbol.dispose] = function () {
      this.dispose();
    };
  }
}

class Engine extends Handle {
  constructor({ threads, device, kernelCache, tier, precision, optimizeFor, dims } = {}) {
    super(addon.newEngine(threads ?? 0, device, kernelCache, tier, precision, optimizeFor, dims));
  }

  load(path) {
    return new Program(addon.load(this.raw, path));
  }

  loadBytes(format, bytes) {
    return new Program(addon.loadBytes(this.raw, choice(FORMATS, format, 'format'), bytes));
  }
}

class Program extends Handle {
  get functions() {
    return addon.functions(this.raw);
  }

  signature(name = 'main') {
    return addon.signature(this.raw, name);
  }

  save(path) {
    addon.save(this.raw, path);
  }

  session(mode = 'tiered') {
    return new Session(addon.newSession(this.raw, choice(MODES, mode, 'mode')));
  }
}

class Session extends Handle {
  call(name, ...args) {
    return addon.call(this.raw, name, args.map(argument));
  }

  callAsync(name, ...args) {
    return addon.callAsync(this.raw, name, args.map(argument));
  }

  warmUp(name, ...args) {
    return addon.warmUp(this.raw, name, args.map(argument));
  }

  setFuel(fuel) {
    addon.setFuel(this.raw, fuel === null ? (1n << 64n) - 1n : BigInt(fuel));
  }

  setTimeout(milliseconds) {
    addon.setDeadline(this.raw, milliseconds === null ? -1 : Math.max(0, milliseconds));
  }

  canceller() {
    return new Canceller(addon.canceller(this.raw));
  }
}

class Canceller extends Handle {
  cancel() {
    addon.cancel(this.raw, true);
  }

  reset() {
    addon.cancel(this.raw, false);
  }
}

function registerFunction(name, body) {
  addon.register(name, body);
}

function getFunction(name) {
  return addon.lookup(name);
}

module.exports = { Engine, Program, Session, Canceller, Tensor, ReflexError, registerFunction, getFunction, version };
