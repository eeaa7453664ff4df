// Runs a WASI command that opens artifacts for WebAssembly: `node run.mjs PROGRAM ARGUMENT...`.

import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

import { Linker } from '../../bindings/web/host.mjs';

const args = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args, env: process.env, preopens: { '/': '/' } });
const linker = new Linker();
const module = new WebAssembly.Module(readFileSync(args[0]));
const instance = new WebAssembly.Instance(module, { reflex_host: linker.imports(), ...wasi.getImportObject() });
linker.exports = instance.exports;
// Node.js collects a WASI that nothing refers to, while it runs.
globalThis.running = wasi;
process.exitCode = wasi.start(instance);
