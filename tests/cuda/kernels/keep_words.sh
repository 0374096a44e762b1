#!/bin/sh
# keep_words.sh COMPILER ARGUMENTS... -o OUT ...: compiles, and keeps what the compiler says in OUT.words.
out=$(printf '%s\n' "$@" | awk 'last == "-o" {print; exit} {last = $0}')
"$@" 2>"$out.words"
status=$?
[ $status -eq 0 ] || cat "$out.words" >&2
exit $status
