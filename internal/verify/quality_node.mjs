// Parses the files it is given, as node would load them, and prints what is
// wrong with them. None of them is run.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import module from 'node:module';

const kinds = new Map();

// kindOf says what the nearest package.json makes of a .js file.
function kindOf(folder) {
  if (kinds.has(folder)) return kinds.get(folder);
  let kind = '';
  try {
    kind = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')).type ?? 'commonjs';
  } catch (error) {
    if (error.code === 'ENOENT' && folder !== path.dirname(folder)) kind = kindOf(path.dirname(folder));
  }
  kinds.set(folder, kind);
  return kind;
}

const asModule = (code, file) => new vm.SourceTextModule(code, {identifier: file});
const asScript = (code, file) => new vm.Script(module.wrap(code), {filename: file});

for (const file of process.argv.slice(1)) {
  const code = fs.readFileSync(file, 'utf8').replace(/^#!.*/, '');
  const kind = {'.mjs': 'module', '.cjs': 'commonjs'}[path.extname(file)] ?? kindOf(path.resolve(path.dirname(file)));
  try {
    if (kind === 'module') asModule(code, file);
    else if (kind === 'commonjs') asScript(code, file);
    else try { asScript(code, file); } catch { asModule(code, file); }
  } catch (error) {
    process.stdout.write(`${file}: ${String(error.stack).split('\n').slice(0, 5).join('\n')}\n`);
  }
}
