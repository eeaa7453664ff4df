// What the runtime's module imports: a dynamic linker for the modules of artifacts, and WASI.
//
// Source: "WebAssembly Dynamic Linking", of the tool-conventions repository.

import { ConsoleStdout, File, OpenFile, PreopenDirectory, WASI } from '@bjorn3/browser_wasi_shim';

export { ConsoleStdout, File, OpenFile, PreopenDirectory, WASI };

const text = new TextDecoder();
const utf8 = new TextEncoder();

let fused;

/** Whether relaxed SIMD is here, with multiply-adds that round once: WebAssembly leaves that to the host. */
export function hasFusedRelaxedMadd() {
  return (fused ??= askFusedRelaxedMadd());
}

function askFusedRelaxedMadd() {
  // (func (export "f") (param T T) (result T)): the first lane of relaxed_madd(p0, p0, p1).
  const module = (type, splat, madd, extract) => Uint8Array.of(
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // magic, version
    1, 7, 1, 0x60, 2, type, type, 1, type, // types
    3, 2, 1, 0, // functions
    7, 5, 1, 1, 0x66, 0, 0, // exports
    10, 22, 1, 20, 0, // code
    0x20, 0, 0xfd, splat, 0x20, 0, 0xfd, splat, 0x20, 1, 0xfd, splat, 0xfd, madd, 2, 0xfd, extract, 0, 0x0b,
  );
  // x * x + y, which is zero where the product is rounded.
  const isFused = (bytes, x, y) => new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.f(x, y) !== 0;
  try {
    return isFused(module(0x7d, 0x13, 0x85, 0x1f), 1 + 2 ** -12, -(1 + 2 ** -11))
      && isFused(module(0x7c, 0x14, 0x87, 0x21), 1 + 2 ** -27, -(1 + 2 ** -26));
  } catch {
    return false; // No relaxed SIMD.
  }
}

/** The section that says what memory and table a shared module wants for itself. */
function linking(module) {
  const [section] = WebAssembly.Module.customSections(module, 'dylink.0');
  if (section === undefined) throw new Error('the module is no shared one (no dylink.0)');
  const bytes = new Uint8Array(section);
  let at = 0;
  const number = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      if (byte === undefined || shift > 28) throw new Error('a damaged section dylink.0');
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  const MEMORY = 1;
  while (at < bytes.length) {
    const [kind, size] = [number(), number()];
    const next = at + size;
    if (kind === MEMORY) {
      const [memory, alignment, table] = [number(), number(), number()];
      return { memory, alignment: 2 ** alignment, table };
    }
    at = next;
  }
  return { memory: 0, alignment: 1, table: 0 };
}

/** The functions of `reflex_host`: open, symbol and close of modules beside the runtime's. */
export class Linker {
  #modules = new Map();
  #number = 0;
  /** Ranges of the table that closed modules left, by their length. */
  #free = new Map();

  /** `exports` are those of the runtime, once it is there. */
  exports = undefined;

  #bytes(at, length) {
    return new Uint8Array(this.exports.memory.buffer, at, length);
  }

  #string(at, length) {
    return text.decode(this.#bytes(at, length));
  }

  #bindings(at, count) {
    const words = new DataView(this.exports.memory.buffer, at, 12 * count);
    const word = (index) => words.getUint32(4 * index, true);
    const each = Array.from({ length: count }, (_, i) => [this.#string(word(3 * i), word(3 * i + 1)), word(3 * i + 2)]);
    return new Map(each);
  }

  #range(length) {
    const { __indirect_function_table: table } = this.exports;
    return this.#free.get(length)?.pop() ?? table.grow(length);
  }

  #release(start, length) {
    const { __indirect_function_table: table } = this.exports;
    for (let at = start; at < start + length; at++) table.set(at, null);
    if (!this.#free.has(length)) this.#free.set(length, []);
    this.#free.get(length).push(start);
  }

  #instantiate(bytes, functions, variables) {
    const { memory, __indirect_function_table: table, __stack_pointer: stack } = this.exports;
    const module = new WebAssembly.Module(bytes);
    const wants = linking(module);
    const loaded = { memory: 0, wants, table: 0, indices: new Map(), exports: undefined };
    if (wants.memory > 0) {
      loaded.memory = this.exports.reflex_allocate(wants.memory, Math.max(16, wants.alignment));
      if (loaded.memory === 0) throw new Error(`no memory for ${wants.memory} bytes of the module`);
    }
    if (wants.table > 0) loaded.table = this.#range(wants.table);
    try {
      const global = (value, mutable = false) => new WebAssembly.Global({ value: 'i32', mutable }, value);
      const base = { __memory_base: global(loaded.memory), __table_base: global(loaded.table) };
      const known = { memory, __indirect_function_table: table, __stack_pointer: stack, ...base };
      const imports = {};
      for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
        const address = from === 'GOT.mem' ? variables.get(name) : functions.get(name);
        let value = from === 'env' && Object.hasOwn(known, name) ? known[name] : undefined;
        if (value === undefined && address !== undefined) {
          value = kind === 'function' ? table.get(address) : global(address, true);
        }
        if (value === undefined) throw new Error(`kernels import ${from}.${name}, which is not there`);
        (imports[from] ??= {})[name] = value;
      }
      loaded.exports = new WebAssembly.Instance(module, imports).exports;
      loaded.exports.__wasm_apply_data_relocs?.();
      loaded.exports.__wasm_call_ctors?.();
      return loaded;
    } catch (error) {
      this.#forget(loaded);
      throw error;
    }
  }

  #forget({ memory, wants, table, indices }) {
    for (const index of indices.values()) this.#release(index, 1);
    if (wants.table > 0) this.#release(table, wants.table);
    if (wants.memory > 0) this.exports.reflex_deallocate(memory, wants.memory, Math.max(16, wants.alignment));
  }

  imports() {
    return {
      open: (bytes, length, functions, functionCount, variables, variableCount, message, messageLength) => {
        try {
          const copy = this.#bytes(bytes, length).slice();
          const bindings = [this.#bindings(functions, functionCount), this.#bindings(variables, variableCount)];
          const loaded = this.#instantiate(copy, ...bindings);
          this.#modules.set(++this.#number, loaded);
          return this.#number;
        } catch (error) {
          const words = new DataView(this.exports.memory.buffer);
          const capacity = words.getUint32(messageLength, true);
          const { written } = utf8.encodeInto(String(error.message ?? error), this.#bytes(message, capacity));
          words.setUint32(messageLength, written, true);
          return 0;
        }
      },
      symbol: (number, name, length) => {
        const { exports, indices } = this.#modules.get(number);
        const key = this.#string(name, length);
        if (!indices.has(key)) {
          if (!Object.hasOwn(exports, key) || typeof exports[key] !== 'function') return 0;
          const index = this.#range(1);
          this.exports.__indirect_function_table.set(index, exports[key]);
          indices.set(key, index);
        }
        return indices.get(key);
      },
      close: (number) => {
        this.#forget(this.#modules.get(number));
        this.#modules.delete(number);
      },
      has_fused_relaxed_madd: () => Number(hasFusedRelaxedMadd()),
    };
  }
}

/** Instantiates the runtime, `reflex.wasm`. Returns its exports. Its files are in memory; what it prints goes to the
 * console. */
export async function instantiate(module, environment) {
  const print = (log) => ConsoleStdout.lineBuffered((line) => log(line));
  const descriptors = [
    new OpenFile(new File([])), print(console.log), print(console.error), new PreopenDirectory('/', new Map()),
  ];
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const [linker, wasi] = [new Linker(), new WASI([], variables, descriptors, { debug: false })];
  const imports = { reflex_host: linker.imports(), wasi_snapshot_preview1: wasi.wasiImport };
  const instance = await WebAssembly.instantiate(module, imports);
  linker.exports = instance.exports;
  wasi.initialize(instance);
  return instance.exports;
}
