// `REFLEX_WASM_RUNTIME` is reflex.wasm, `REFLEX_WASM_MODELS` a folder with values.wasm.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { ReflexError, start, Tensor } from '../reflex.mjs';

const runtime = await WebAssembly.compile(readFileSync(process.env.REFLEX_WASM_RUNTIME));
const model = readFileSync(join(process.env.REFLEX_WASM_MODELS, 'values.wasm'));

test('values pass in and out', async () => {
  const engine = await start(runtime);
  const session = engine.load(model).session();
  const x = new Tensor(new Float32Array([1, -2, 3, 4]), [2, 2]);
  assert.deepEqual(session.call('twice', x).data, new Float32Array([2, -4, 6, 8]));
  const [same, total] = session.call('pair', x);
  assert.deepEqual([same.shape, same.data, total.shape, total.data], [[2, 2], x.data, [], new Float32Array([6])]);
  assert.deepEqual(session.call('shape', x), [2, 2]);
});

test('errors have a kind and a status, and the session goes on', async () => {
  const engine = await start(runtime);
  const session = engine.load(model).session();
  const wrong = () => session.call('twice', new Int32Array([1, 2]));
  assert.throws(wrong, (error) => error instanceof ReflexError && error.status === 'run' && error.kind.endsWith('Error'));
  assert.throws(() => session.call('nothing'), /nothing/);
  assert.throws(() => new Tensor(new Float32Array(3), [2, 2]) && session.call('twice', new Tensor(new Float32Array(3), [2, 2])), RangeError);
  session.setFuel(0);
  assert.throws(() => session.call('twice', new Tensor(new Float32Array(4), [2, 2])), ReflexError);
  session.setFuel(null);
  assert.equal(session.call('twice', new Tensor(new Float32Array(4), [2, 2])).data.length, 4);
});

test('what is no artifact is refused', async () => {
  const engine = await start(runtime);
  assert.throws(() => engine.load(new Uint8Array([1, 2, 3])), /not a WebAssembly module/);
  const empty = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
  assert.throws(() => engine.load(empty), /dylink/);
  for (let at = 0; at < model.length; at += 997) {
    const damaged = Uint8Array.from(model);
    damaged[at] ^= 0x40;
    // The code of an artifact is trusted; its data is checked.
    try {
      engine.load(damaged).dispose();
    } catch (error) {
      assert.ok(error instanceof ReflexError, error);
    }
  }
});

test('memory and the table stay as they are', async () => {
  const engine = await start(runtime);
  const once = () => {
    const program = engine.load(model);
    const session = program.session();
    session.call('twice', new Tensor(new Float32Array(4096), [64, 64]));
    session.dispose();
    program.dispose();
  };
  for (let i = 0; i < 20; i++) once();
  const { exports } = engine.runtime;
  const before = [exports.memory.buffer.byteLength, exports.__indirect_function_table.length];
  for (let i = 0; i < 200; i++) once();
  assert.deepEqual([exports.memory.buffer.byteLength, exports.__indirect_function_table.length], before);
  assert.throws(() => { const s = engine.load(model).session(); s.dispose(); s.call('twice'); }, /disposed/);
});
