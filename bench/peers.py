"""What bench/peers.sh runs."""
import argparse
import json
import os
import statistics
import subprocess
import sys

WORKS = ["prefill 512", "decode 1", "decode 8", "decode 32"]
LONG = ["prefill 4096", "decode 1 behind 8192"]
LIMIT_S = 900  # for one run of one engine


def output_of(command, stderr=subprocess.DEVNULL, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=LIMIT_S, **more).stdout


def millrace(model, args):
    command = ["build/release/millrace", "bench", model, "--threads", str(args.threads), "--json"] + ["--long"] * args.long
    report = json.loads(output_of(command))
    rows, shares = {}, {}
    for row in report["rows"]:
        name = f"{row['work']} {row['tokens'] if row['work'] == 'prefill' else row['batch']}"
        if row["work"] == "decode" and row["tokens"] > 8192:
            name += " behind 8192"
        rows[name], shares[name] = row["tokens_per_s"], row["roof_share"]
    return rows, shares, report["machine"]


def llama_cpp(folder, model, args):
    own = os.path.join(folder, "llama-bench")
    threads = str(args.threads)
    prefill, decode = json.loads(output_of([own, "-m", model, "-t", threads, "-p", "512", "-n", "64", "-r", "2", "-o", "json"]))
    rows = {"prefill 512": prefill["avg_ts"], "decode 1": decode["avg_ts"]}
    batched = output_of([os.path.join(folder, "llama-batched-bench"), "-m", model, "-t", threads, "-c", "16384", "-b", "2048",
                         "-npp", "128", "-ntg", "32", "-npl", "8,32"], stderr=subprocess.STDOUT)  # a fork prints its table there
    for line in batched.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) >= 8 and cells[2] in ("8", "32") and cells[0] == "128":
            rows[f"decode {cells[2]}"] = float(cells[7])
    if args.long:
        (long_prefill,) = json.loads(output_of([own, "-m", model, "-t", threads, "-p", "4096", "-n", "0", "-r", "1", "-o", "json"]))
        rows["prefill 4096"] = long_prefill["avg_ts"]
    return rows


def driver(script, python, model, args):
    environment = dict(os.environ, PEER_THREADS=str(args.threads))
    printed = output_of([python, os.path.join("bench", script), model], env=environment)
    return json.loads(printed.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--llama-cpp", action="append", default=[])
    parser.add_argument("--vllm", action="append", nargs=2, default=[])
    parser.add_argument("--openvino", action="append", nargs=2, default=[])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--json", help="also write all figures to this file")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()

    engines = {}  # name -> what runs it once
    shares, machine = {}, {}
    for model in args.models:
        name = os.path.splitext(os.path.basename(model))[0]

        def own(model=model, name=name):
            rows, share, found = millrace(model, args)
            shares.setdefault(name, []).append(share)
            machine.update(found)
            return rows
        engines[f"millrace {name}"] = own
        for folder in args.llama_cpp:
            label = os.path.basename(os.path.dirname(os.path.normpath(folder)))
            engines[f"{label} {name}"] = lambda folder=folder, model=model: llama_cpp(folder, model, args)
    for python, model in args.vllm:
        engines[f"vLLM {os.path.basename(os.path.normpath(model))}"] = lambda p=python, m=model: driver("peer_vllm.py", p, m, args)
    for python, model in args.openvino:
        engines[f"OpenVINO {os.path.basename(os.path.normpath(model))}"] = lambda p=python, m=model: driver("peer_openvino.py", p, m, args)

    print("load average:", " ".join(open("/proc/loadavg").read().split()[:3]), flush=True)
    results = {name: [] for name in engines}
    for round_ in range(args.rounds):
        for name, run in engines.items():
            try:
                results[name].append(run())
                print(f"round {round_ + 1}, {name}: " + ", ".join(f"{w} {v:.1f}" for w, v in results[name][-1].items()), flush=True)
            except (subprocess.SubprocessError, ValueError, OSError) as why:
                print(f"round {round_ + 1}, {name}: no figures ({str(why)[:200]})", flush=True)

    works = WORKS + LONG * args.long
    median = {n: {w: statistics.median(r[w] for r in rs if w in r) for w in works if any(w in r for r in rs)} for n, rs in results.items()}
    roof = machine.get("roof", {})
    print(f"\n{machine.get('cpu')}, {machine.get('isa')}, {args.threads} threads; roof: " + ", ".join(f"{k} {v:.4g}" for k, v in roof.items()))
    print(f"medians of {args.rounds}, tokens/s\n{'':<28}" + "".join(f"{w:>22}" for w in works))
    for name, rows in median.items():
        print(f"{name:<28}" + "".join(f"{rows[w]:>22.1f}" if w in rows else f"{'-':>22}" for w in works))
    print("\nshare of the roof that bounds it, and millrace / the fastest other engine of any format")
    others = {w: max((rows[w], n) for n, rows in median.items() if not n.startswith("millrace ") and w in rows) for w in works
              if any(w in rows for n, rows in median.items() if not n.startswith("millrace "))}
    for name, share in shares.items():
        cells = ""
        for w in works:
            if w not in median[f"millrace {name}"]:
                cells += f"{'-':>22}"
                continue
            ratio = f"{median[f'millrace {name}'][w] / others[w][0]:.2f}x" if w in others else ""
            cells += f"{statistics.median(s[w] for s in share):.2f} {ratio}".rjust(22)
        print(f"{name:<28}" + cells)
    for w, (rate, who) in others.items():
        print(f"fastest other at {w}: {who}, {rate:.1f}")
    if args.json:
        with open(args.json, "w") as out:
            json.dump({"machine": machine, "results": results, "shares": shares}, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
