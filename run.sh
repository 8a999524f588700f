#!/bin/sh
# From a fresh Debian machine to an answer: installs what is missing, builds, gets the default model, runs one prompt.
# Usage: ./run.sh                          the default model
#        ./run.sh MODEL ["PROMPT"]         a .gguf file, a folder, or a name that `millrace fetch` knows
# Can be run again at any time, also without a network once everything is there.
set -eu
root=$(cd "$(dirname "$0")" && pwd)
default=smollm2-135m-instruct
model=${1:-$default}
prompt=${2:-"Why is the sky blue? Answer in three sentences."}

"$root/tools/install.sh"
"$root/tools/build.sh" release millrace

millrace=$root/build/release/millrace
if [ "$model" = "$default" ]; then "$millrace" fetch "$model" >/dev/null; fi
chat=
if "$millrace" inspect "$model" --json | grep -q '"chat_template":true'; then chat=--chat; fi
exec "$millrace" run "$model" $chat -p "$prompt" -n 200
