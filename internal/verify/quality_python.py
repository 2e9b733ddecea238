# Compiles the files it is given and prints what is wrong with them. None of
# them is run, and nothing of the project is imported.
import sys
import tokenize
import warnings

mode, files = sys.argv[1], sys.argv[2:]
warnings.simplefilter("error" if mode == "warnings" else "ignore")
for file in files:
    try:
        with tokenize.open(file) as source:
            compile(source.read(), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, Warning, RecursionError, MemoryError, UnicodeError) as wrong:
        print(f"{file}: {type(wrong).__name__}: {wrong}")
