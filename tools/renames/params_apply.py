"""locals.py ROOT LIST [--dry]: renames local variables. LIST lines: path<TAB>Qual.name<TAB>old<TAB>new (path relative to ROOT).
Only names that the function assigns (not its parameters) are renamed; `new` must not occur in the function already."""
import ast, io, re, sys, tokenize, collections
from pathlib import Path
root, lists = Path(sys.argv[1]), sys.argv[2]
dry = "--dry" in sys.argv
todo = collections.defaultdict(list)
for line in Path(lists).read_text().splitlines():
    if line.strip() and not line.startswith("#"):
        parts = line.split("\t")
        if len(parts) != 4: print("bad line", line); continue
        todo[parts[0]].append(tuple(parts[1:]))
def functions(tree):
    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield prefix + child.name, child
                yield from walk(child, prefix + child.name + ".")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, prefix + child.name + ".")
            else:
                yield from walk(child, prefix)
    return walk(tree, "")
done = skipped = 0
for path, rows in todo.items():
    file = root / path
    if not file.exists(): skipped += len(rows); print("gone", path); continue
    for qual, old, new in rows:
        text = file.read_text()
        tree = ast.parse(text)
        found = [n for q, n in functions(tree) if q == qual]
        if not found: skipped += 1; print("no function", path, qual); continue
        hits = 0
        for fn in found:
            names = [n for n in ast.walk(fn) if isinstance(n, ast.Name)]
            stored = any(n.id == old and isinstance(n.ctx, ast.Store) for n in names)
            lam = {a.arg for l in ast.walk(fn) if isinstance(l, ast.Lambda) for a in l.args.args}
            params = {a.arg for a in ast.walk(fn) if isinstance(a, ast.arg)} - lam
            pass
            pass
            if any(n.id == new for n in names) or new in {a.arg for a in ast.walk(fn) if isinstance(a, ast.arg)} or any(isinstance(n,(ast.FunctionDef,)) and n.name==new for n in ast.walk(fn)):
                print("taken", path, qual, old, new); continue
            if any(isinstance(n, (ast.Global, ast.Nonlocal)) and old in n.names for n in ast.walk(fn)): print("global", path, qual); continue
            # imported/module-level name shadowed?
            module_names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} 
            top = {x.asname or x.name.split(".")[0] for i in ast.walk(tree) if isinstance(i,(ast.Import,ast.ImportFrom)) for x in i.names} | {d.name for d in tree.body if isinstance(d,(ast.FunctionDef,ast.ClassDef))}
            if new in top or not new.isidentifier() or __import__("keyword").iskeyword(new) or new in dir(__builtins__): print("shadows", path, qual, new); continue
            keywords = {(k.lineno, k.col_offset) for k in ast.walk(fn) if isinstance(k, ast.keyword) and k.arg == old}
            lines = text.splitlines(keepends=True)
            edits = []
            toks = list(tokenize.generate_tokens(io.StringIO(text).readline))
            for i, t in enumerate(toks):
                if not fn.lineno <= t.start[0] <= fn.end_lineno: continue
                if t.type == tokenize.NAME and t.string == old:
                    if toks[i-1].string in (".", "def"): continue
                    if (t.start[0], len(lines[t.start[0]-1][:t.start[1]].encode())) in keywords: continue
                    edits.append((t.start, t.end, new))
                elif t.type == tokenize.STRING and re.match(r"(?i)(f|rf|fr)['\"]", t.string) and re.search(rf"\b{old}\b", t.string):
                    s = t.string
                    out, depth, j = [], 0, 0
                    # replace inside braces only
                    buf = ""
                    while j < len(s):
                        if depth == 0 and s[j:j+2] in ("{{", "}}"): out.append(s[j:j+2]); j += 2; continue
                        if s[j] == "{":
                            if depth == 0: buf = ""
                            depth += 1
                        elif s[j] == "}":
                            depth -= 1
                            if depth == 0:
                                out.append(re.sub(rf"(?<![\w.'\"]){old}(?!\w|\s*=[^=])", new, buf)); buf = ""
                        if depth and not (depth == 1 and s[j] == "{" and not buf): buf += s[j]
                        elif depth: out.append("{")
                        else: out.append(s[j])
                        j += 1
                    s2 = "".join(out)
                    if s2 != s: edits.append((t.start, t.end, s2))
            for start, end, repl in sorted(edits, reverse=True):
                if start[0] == end[0]:
                    l = lines[start[0]-1]; lines[start[0]-1] = l[:start[1]] + repl + l[end[1]:]
                else:
                    first = lines[start[0]-1][:start[1]] + repl + lines[end[0]-1][end[1]:]
                    lines[start[0]-1:end[0]] = [first] + [""] * (end[0]-start[0])
            text = "".join(lines); tree = ast.parse(text); hits += 1
        if hits:
            done += 1
            if not dry: file.write_text(text)
        else: skipped += 1
print("renamed", done, "skipped", skipped)
