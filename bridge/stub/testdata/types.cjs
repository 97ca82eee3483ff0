// Reads sets of generated files, one JSON object a line, and answers each with
// an empty line or with what the TypeScript compiler says of their types. The
// first argument is the directory of node_modules that has the compiler.
const ts = require(`${process.argv[2]}/typescript`);

// The library's declarations that generated types use, and those the compiler
// asks for: its own library takes longer to bind than a set takes to check.
const library = `
interface Array<T> { length: number; [n: number]: T }
interface ReadonlyArray<T> { readonly length: number; readonly [n: number]: T }
interface Promise<T> { then(f: (value: T) => void): void }
interface Iterable<T> { next(): T }
interface Error { name: string; message: string }
declare const Error: { new (message?: string): Error };
interface Boolean {} interface Function {} interface CallableFunction {} interface NewableFunction {}
interface IArguments {} interface Number {} interface Object {} interface RegExp {} interface String {}
type Record<K extends keyof any, T> = { [P in K]: T };
`;
const options = {
  strict: true, noEmit: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, noLib: true,
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [],
};

function check({ files }) {
  const text = new Map(Object.entries(files).map(([name, content]) => [`/w/${name}`, content]));
  const roots = [...text.keys()].filter((name) => name.endsWith('.d.ts'));
  if (!roots.length) throw new Error('there are no types');
  text.set('/w/library.d.ts', library);
  const host = {
    getCurrentDirectory: () => '/w',
    getDefaultLibFileName: () => '/w/library.d.ts',
    getCanonicalFileName: (name) => name,
    useCaseSensitiveFileNames: () => true,
    getNewLine: () => '\n',
    fileExists: (name) => text.has(name),
    readFile: (name) => text.get(name),
    directoryExists: (name) => [...text.keys()].some((f) => f.startsWith(`${name}/`)),
    getSourceFile: (name, how) => (text.has(name) ? ts.createSourceFile(name, text.get(name), how) : undefined),
    writeFile: () => {},
  };
  roots.push('/w/library.d.ts');
  const found = ts.getPreEmitDiagnostics(ts.createProgram(roots, options, host));
  if (found.length) {
    throw new Error(found.map((d) =>
      `${d.file?.fileName}:${d.start}: ${ts.flattenDiagnosticMessageText(d.messageText, ' ')}`).join('\n'));
  }
}

require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  let answer = '';
  try {
    check(JSON.parse(line));
  } catch (err) {
    answer = JSON.stringify(String(err.stack).slice(0, 3000));
  }
  process.stdout.write(answer + '\n');
});
