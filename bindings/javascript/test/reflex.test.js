'use strict';
// Tests of the package for Node.js; `./x bindings javascript` runs them.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');

const { Engine, ReflexError, Tensor, getFunction, registerFunction, version } = require('..');

const models = process.env.REFLEX_BINDING_MODELS;
assert.ok(models, 'REFLEX_BINDING_MODELS is not set; ./x bindings sets it');

// Answers by the kind of its argument.
function back(x) {
  if (x === null) throw Object.assign(new Error('nothing is given'), { name: 'ValueError' });
  if (typeof x === 'boolean') return !x;
  if (typeof x === 'bigint') return x;
  if (typeof x === 'number') return Number.isInteger(x) ? x + 1 : x / 2;
  if (typeof x === 'string') return `hello ${x}`;
  if (typeof x === 'function') return x(20);
  if (Array.isArray(x)) return [x.at(-1), x[0]];
  if (x instanceof Tensor) return new Tensor(x.data.map((element) => 2 * element), x.shape);
  return x;
}

registerFunction('bindings.back', back);

function open(model) {
  return new Engine({ threads: 1 }).load(path.join(models, model));
}

test('models from files and memory', () => {
  const file = path.join(models, 'linear.onnx');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'reflex-'));
  const engine = new Engine({ threads: 2, tier: 'threshold=10' });
  const compiled = engine.load(file);
  compiled.save(path.join(folder, 'linear.so'));
  const programs = [compiled, engine.load(path.join(folder, 'linear.so')), engine.loadBytes('onnx', fs.readFileSync(file))];
  engine.dispose();
  for (const program of programs) {
    const { inputs, outputs } = program.signature();
    assert.deepEqual(inputs, [{ name: 'x', dtype: 'float32', shape: ['n', 3] }]);
    assert.equal(outputs.length, 1);
    assert.deepEqual(program.functions, ['main']);
    for (const mode of ['tiered', 'bytecode', 'compiled']) {
      const session = program.session(mode);
      const x = new Tensor(new Float32Array([3, 2, 0, 0, 1, 2]), [2, 3]);
      const y = session.call('main', x);
      assert.deepEqual([...y.data], [7.5, 0, 0, 6.5]);
      assert.deepEqual([y.shape, y.dtype], [[2, 2], 'float32']);
      assert.ok(session.warmUp('main', x) > 0);
      session.dispose();
    }
    program.dispose();
    assert.throws(() => program.session(), /disposed/);
  }
  fs.rmSync(folder, { recursive: true });
  assert.match(version, /^\d+\.\d+\.\d+$/);
});

test('values of every kind go both ways', () => {
  const session = open('values.py').session();
  for (const [given, want] of [
    [true, false], [41, 42], [-(2 ** 53) + 1, -(2 ** 53) + 2], [0.5, 0.25], [2n ** 62n, 2n ** 62n],
    ['wörld\0!', 'hello wörld\0!'], [['a', null, 2], [2, 'a']], [(x) => 2 * x, 40],
  ]) assert.deepEqual(session.call('back', given), want);
  const map = getFunction('ffi.Map')('key', 1);
  assert.equal(getFunction('ffi.MapSize')(session.call('back', map)), 1);
  const doubled = session.call('back', new Tensor(new Float32Array([1, 2, 3, 4]), [2, 2]));
  assert.deepEqual([[...doubled.data], doubled.shape], [[2, 4, 6, 8], [2, 2]]);
  assert.deepEqual(session.call('shape', new Tensor(new Float32Array(6), [3, 2])), [3, 2]);
  const [a, b] = session.call('pair', new Float32Array([1, 2, 3]));
  assert.deepEqual([[...a.data], [...b.data]], [[2, 3, 4], [1, 4, 9]]);
  const counted = session.call('count', new BigInt64Array([2n ** 63n - 2n, -5n]));
  assert.deepEqual([...counted.data], [2n ** 63n - 1n, -4n]);
  assert.equal(session.call('pair', new Float32Array(0))[0].data.length, 0);
});

test('large results are memory of the library', () => {
  const session = open('values.py').session();
  const x = new Float32Array(4096).fill(3);
  const [a, b] = session.call('pair', x);
  assert.ok(a.data.every((element) => element === 4) && b.data.every((element) => element === 9));
  // What is returned is an argument of the next call, in place.
  assert.equal(session.call('pair', a)[0].data[4095], 5);
  a.dispose();
  a.dispose();
  assert.equal(a.data.length, 0);
  assert.throws(() => session.call('pair', a), /disposed of/);
  // Memory that was transferred belongs to the buffer that has it.
  const moved = structuredClone(b.data.buffer, { transfer: [b.data.buffer] });
  b.dispose();
  assert.equal(new Float32Array(moved)[17], 9);
});

test('errors say what and where', () => {
  const session = open('values.py').session();
  const failure = (kind, status, message) => (error) => {
    assert.ok(error instanceof ReflexError, `${error}`);
    assert.deepEqual([error.kind, error.status], [kind, status]);
    assert.match(error.message, message);
    return true;
  };
  assert.throws(() => session.call('back', null), failure('ValueError', 'run', /nothing is given/));
  assert.throws(() => session.call('back', () => { throw new RangeError('so what'); }), failure('RangeError', 'run', /so what/));
  assert.throws(() => session.call('back', () => Symbol('none')), failure('TypeError', 'run', /none of programs/));
  assert.throws(() => session.call('nothing'), failure('AttributeError', 'run', /nothing/));
  assert.throws(() => session.call('pair'), failure('InternalError', 'run', /expects 1 argument/));
  assert.throws(() => new Engine().load('no/such.onnx'), failure('OSError', 'io', /no\/such\.onnx/));
  assert.throws(() => getFunction('no.such.function'), failure('ValueError', 'input', /no\.such/));
  assert.throws(() => session.call('back', {}), /no value of programs/);
  assert.throws(() => session.call('ba\0ck'), /NUL/);
  assert.throws(() => session.call('pair', new Tensor(new Float32Array(3), [4])), /other elements/);
  assert.throws(() => session.call('pair', new Tensor(new Float32Array(3), [3], 'float64')), /not of its dtype/);
  assert.throws(() => new Engine().loadBytes('text', new Uint8Array(1)), /no format/);
  session.setFuel(0);
  assert.throws(() => session.call('back', 1), failure('reflex.FuelExhausted', 'fuel', /./));
  session.setFuel(null);
  session.setTimeout(0);
  assert.throws(() => session.call('back', 1), (error) => error.status === 'deadline');
  session.setTimeout(null);
  const canceller = session.canceller();
  canceller.cancel();
  assert.throws(() => session.call('back', 1), (error) => error.status === 'cancelled');
  canceller.reset();
  assert.equal(session.call('back', 1), 2);
});

test('what is disposed of during a call is freed after it', () => {
  const session = open('values.py').session();
  assert.equal(session.call('back', () => { session.dispose(); return 'closed'; }), 'closed');
  assert.throws(() => session.call('back', 1), /disposed/);
});

test('asynchronous calls run beside JavaScript, and call it', async () => {
  const program = open('values.py');
  const sessions = Array.from({ length: 4 }, () => program.session());
  const answers = await Promise.all(sessions.map((session, i) => session.callAsync('back', i)));
  assert.deepEqual(answers, [1, 2, 3, 4]);
  const doubled = await sessions[0].callAsync('back', new Tensor(new Float32Array(4096).fill(1), [4096]));
  assert.equal(doubled.data[4095], 2);
  await assert.rejects(sessions[0].callAsync('back', null), (error) => error.kind === 'ValueError');
  assert.equal(await sessions[0].callAsync('back', (x) => x * 3), 60);
  const busy = sessions[1].callAsync('back', () => {
    assert.throws(() => sessions[2].call('nothing'), /nothing/);
    sessions[1].dispose();
    return 'done';
  });
  assert.equal(await busy, 'done');
});

test('worker threads have their own functions', async () => {
  const worker = new Worker(`
    const { Engine, registerFunction } = require(${JSON.stringify(path.resolve(__dirname, '..'))});
    const { parentPort } = require('node:worker_threads');
    registerFunction('bindings.worker', (x) => x + 1);
    const session = new Engine().load(${JSON.stringify(path.join(models, 'values.py'))}).session();
    let refused;
    try { session.call('back', 1); } catch (error) { refused = error.message; }
    parentPort.postMessage([refused, require(${JSON.stringify(path.resolve(__dirname, '..'))}).getFunction('bindings.worker')(1)]);
  `, { eval: true });
  const [refused, answer] = await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject));
  await worker.terminate();
  assert.match(refused, /thread that JavaScript may wait for/);
  assert.equal(answer, 2);
  // Its environment has ended.
  assert.throws(() => getFunction('bindings.worker')(1), /JavaScript/);
});

test('memory stays flat', async () => {
  const session = open('values.py').session();
  const x = new Tensor(new Float32Array(16 << 10), [16 << 10]);
  const round = () => {
    session.call('back', x);
    for (const part of session.call('pair', x)) part.dispose();
    session.call('back', 'text');
    assert.throws(() => session.call('back', null));
    session.call('back', (a) => a);
  };
  // Memory of functions and of buffers that are not disposed of goes in turns of the event loop.
  const rounds = async (count) => {
    for (let i = 0; i < count; ++i) {
      round();
      if (i % 50 === 0) await new Promise(setImmediate);
    }
    for (let i = 0; i < 5; ++i) {
      global.gc?.();
      await new Promise(setImmediate);
    }
  };
  await rounds(3000);
  const before = process.memoryUsage().rss;
  await rounds(10000);
  const grown = process.memoryUsage().rss - before;
  console.log(`${grown} bytes more after 10,000 rounds`);
  // A tensor that leaks in each round would take 640 MiB.
  assert.ok(grown < 32 << 20, `memory grows by ${grown}`);
});
