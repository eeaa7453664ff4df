'use strict';
// Calls a model: the example of README.md.

const { Engine, Tensor, getFunction, registerFunction } = require('.');

const session = new Engine({ threads: 2 }).load(process.argv[2]).session();
const x = new Tensor(new Float32Array([3, 2, 0, 0, 1, 2]), [2, 3]);
const y = session.call('main', x);
console.log(y.shape, y.data);

// Programs call it by this name.
registerFunction('example.shout', (text) => text.toUpperCase() + '!');
console.log(getFunction('example.shout')('done'));

session.callAsync('main', x).then((again) => console.log(again.data));
