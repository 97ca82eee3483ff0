// A78: what a program asks of the machine to size its pools.
const os = require('os');
if (os.cpus().length === 0) throw new Error('no processors');
console.log(os.totalmem() > 0, os.cpus().length > 0, os.loadavg().length);
