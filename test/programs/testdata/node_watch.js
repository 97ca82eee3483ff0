// fs.watch sees a change: the inotify calls.
const fs = require('fs');
const w = fs.watch('.', (event, name) => { console.log('watched', name); w.close(); });
fs.writeFileSync('seen', '');
