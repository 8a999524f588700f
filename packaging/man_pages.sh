#!/bin/sh
# man_pages.sh FOLDER VERSION: a manual page for the program and for each command, from the help texts as
# tests/golden/help has them (the tests hold them against --help): there, what depends on the machine is left out.
set -eu
folder=$1 version=$2
texts=$(cd "$(dirname "$0")/.." && pwd)/tests/golden/help
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
mkdir -p "$folder"
rm -f "$folder"/*.1.gz

for text in "$texts"/*.txt; do
  command=$(basename "$text" .txt)
  case $command in millrace) page=millrace ;; *) page=millrace-$command ;; esac
  ln -s "$(command -v cat)" "$bin/$page"  # the program that help2man asks; its "option" is the file
  summary=$(sed -n '1s/^Millrace: //; 1s/\.$//p' "$text")
  # Columns of blanks are for a terminal.
  help2man --no-info --name="$summary" --version-string="$version" --help-option="$text" "$bin/$page" |
    sed -E '/^\./!s/ {3,}/ /g; s/ \[\.\.\.\]$//' | gzip -9n >"$folder/$page.1.gz"
done
