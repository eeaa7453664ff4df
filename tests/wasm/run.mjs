// Runs a WASI command on artifacts for WebAssembly: `node run.mjs PROGRAM ARGUMENT ARTIFACT...`. Node.js's own WASI
// crashes where its garbage is collected during a run, so this is that of browsers, with the files in memory.

import { readFileSync } from 'node:fs';

import { ConsoleStdout, File, Linker, OpenFile, PreopenDirectory, WASI } from '../../bindings/web/host.mjs';

const [program, argument, ...artifacts] = process.argv.slice(2);
const files = artifacts.map((path, at) => [`${at}.wasm`, new File(readFileSync(path))]);
const print = (stream) => ConsoleStdout.lineBuffered((line) => stream.write(`${line}\n`));
const descriptors = [
  new OpenFile(new File([])), print(process.stdout), print(process.stderr), new PreopenDirectory('/', new Map(files)),
];
const args = [program, argument, ...files.map(([name]) => `/${name}`)];
const [linker, wasi] = [new Linker(), new WASI(args, [], descriptors, { debug: false })];
const imports = { reflex_host: linker.imports(), wasi_snapshot_preview1: wasi.wasiImport };
const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(program)), imports);
linker.exports = instance.exports;
process.exitCode = wasi.start(instance);
