# bash completion for shardctl
# tests/cli compares this list of options with the output of --help.

_shardctl_options() {
  case "$1" in
    pack) echo "--from --group-by --order --output --shard-size --shard-samples --block-size --type --codec --dictionary --storage --jobs
                --sha256 --task --finish --append --existing-keys --resume --on-error --max-decompression --no-verify-hashes --allow-empty --keep-hidden --no-follow --dry-run --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    plan-pack) echo "--from --group-by --order --output --tasks --shard-size --shard-samples --block-size --type --codec --dictionary --storage --jobs
                --sha256 --on-error --max-decompression --no-verify-hashes --allow-empty --keep-hidden --no-follow --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    index) echo "--dali --wids --name --no-md5 --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    diff) echo "--column --examples --at-a --at-b --jobs --max-decompression --no-verify-hashes --json --endpoint --header --query --cache --cache-limit --help" ;;
    history) echo "--json --endpoint --header --query --cache --cache-limit --help" ;;
    ls) echo "--long --shards --values-xxh3 --offset --limit --io --max-decompression --no-verify-hashes --at --json --endpoint --header --query --cache --cache-limit --help" ;;
    inspect) echo "--sample --key --shard --block --max-decompression --no-verify-hashes --at --json --endpoint --header --query --cache --cache-limit --help" ;;
    view) echo "--port --host --no-open --at --endpoint --header --query --cache --cache-limit --help" ;;
    report) echo "--output --samples --seed --limit --no-validate --jobs --json --endpoint --header --query --cache --cache-limit --help" ;;
    cat) echo "--sample --key --column --output --decode --force --io --max-decompression --no-verify-hashes --at --endpoint --header --query --cache --cache-limit --help" ;;
    validate) echo "--deep --task --jobs --io --max-decompression --json --endpoint --header --query --cache --cache-limit --help" ;;
    repair) echo "--output --schema-from --keep-samples --max-decompression --json --help" ;;
    unpack) echo "--output --jobs --samples --by-shard --on-error --max-decompression --no-verify-hashes --at --json --endpoint --header --query --cache --cache-limit --help" ;;
    columns) echo "--json --endpoint --header --query --cache --cache-limit --help" ;;
    "columns add") echo "--from --key --columns --type --jobs --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    "columns set") echo "--class-names --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    "columns drop" | "columns rename") echo "--json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    convert) echo "--output --to --columns --key --lossy --shard-size --shard-samples --block-size --codec --storage --sha256 --compression --hash
                   --encoding --no-index --jobs --task --finish --append --existing-keys --resume --on-error --max-decompression
                   --no-verify-hashes --at --dry-run --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    filter) echo "--output --where --keys-from --range --sample --seed --count --shard-size --block-size --jobs --resume
                  --max-decompression --no-verify-hashes --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    split) echo "--output --into --seed --shard-size --block-size --jobs --resume
                 --max-decompression --no-verify-hashes --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    reshard) echo "--output --shard-samples --shuffle --seed --memory --scratch --shard-size --block-size --jobs --resume
                 --max-decompression --no-verify-hashes --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    merge) echo "--output --repeated-keys --copy --shard-size --block-size --jobs --resume
                 --max-decompression --no-verify-hashes --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    rm) echo "--keys-from --where --range --jobs --max-decompression --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    compact) echo "--lost --fold --purge --grace --jobs --json --endpoint --header --query --cache --cache-limit --no-conditional --help" ;;
    plan) echo "--batch-size --seed --order --shuffle-buffer --lanes --expect-world-size --locality --remainder --world-size --rank
                --proportion --repeat --choose --at --epoch-samples --epoch --from-step --steps --cursor --label
                --no-verify-hashes --json --endpoint --header --query --cache --cache-limit --help" ;;
    simulate) echo "--samples --sample-size --shards --block-size --batch-size --seed --order --shuffle-buffer --lanes --expect-world-size
                --locality --remainder --world-size --proportion --repeat --choose --at --epoch-samples --ranks-per-node --epochs --steps --step-time
                --decode-time --check-rate --threads --memory --latency --node-bandwidth --bandwidth --request-rate --node-cache
                --endpoint --header --query --cache --cache-limit --json --help" ;;
    bench) echo "--epochs --steps --batch-size --seed --order --shuffle-buffer --lanes --expect-world-size --locality --remainder --world-size --rank
                --proportion --repeat --choose --at --epoch-samples --decode --columns --context
                --simulate-step --simulate-latency --cold --memory --threads --read-threads --io --max-decompression
                --no-verify-hashes --verify --on-error --trace --device --device-sizes --pinned --device-geometry --pixels --endpoint --header --query --cache --cache-limit --json --help" ;;
    cache) echo "--endpoint --header --query --cache --cache-limit --requests --json --help" ;;
    uploads) echo "--endpoint --json --help" ;;
    "synth sa1b") echo "--output --count --seed --jobs --overwrite --json --first-id --width --height --min-objects
                        --max-objects --quality --help" ;;
    "synth files") echo "--output --count --seed --jobs --overwrite --json --size --jitter --extension
                         --per-directory --content --help" ;;
    synth) echo "--help" ;;
  esac
}

# The column names of the dataset among the words, if there is one.
_shardctl_columns() {
  local word
  for word in "${COMP_WORDS[@]:2}"; do
    if [[ -f $word/dataset.json ]]; then
      sed -n '/"columns"/,/"metadata"/s/.*"name": *"\([^"]*\)".*/\1/p' "$word/dataset.json" 2>/dev/null
      return
    fi
  done
}

_shardctl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]-}
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "pack plan-pack index diff history ls inspect view report cat validate repair unpack columns convert filter split merge rm compact reshard plan simulate bench cache uploads synth --help --version" -- "$current")
    return
  fi
  if [[ $verb == cache && $COMP_CWORD -eq 2 && $current != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "list verify clear warm" -- "$current")
    return
  fi
  if [[ $verb == uploads && $COMP_CWORD -eq 2 && $current != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "list abort" -- "$current")
    return
  fi
  if [[ $verb == columns && $COMP_CWORD -gt 2 && " add drop rename set " == *" ${COMP_WORDS[2]} "* ]]; then
    verb="columns ${COMP_WORDS[2]}"
  fi
  if [[ $verb == synth ]]; then
    if [[ $COMP_CWORD -eq 2 ]]; then
      mapfile -t COMPREPLY < <(compgen -W "sa1b files --help" -- "$current")
      return
    fi
    verb="synth ${COMP_WORDS[2]}"
  fi
  if [[ $verb == "columns add" && $previous == --from ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  case $previous in
    --from) mapfile -t COMPREPLY < <(compgen -W "auto files imagefolder sa1b webdataset mds" -- "$current"); return ;;
    --group-by) mapfile -t COMPREPLY < <(compgen -W "first-dot last-dot none" -- "$current"); return ;;
    --to) mapfile -t COMPREPLY < <(compgen -W "shard webdataset mds" -- "$current"); return ;;
    --on-error) mapfile -t COMPREPLY < <(compgen -W "fail skip" -- "$current"); return ;;
    --verify) mapfile -t COMPREPLY < <(compgen -W "every first never" -- "$current"); return ;;
    --order)
      local orders="sequential shuffled window"
      [[ $verb == *pack ]] && orders="random path"
      mapfile -t COMPREPLY < <(compgen -W "$orders" -- "$current")
      return ;;
    --remainder) mapfile -t COMPREPLY < <(compgen -W "keep drop pad" -- "$current"); return ;;
    --decode) mapfile -t COMPREPLY < <(compgen -W "none image masks tokens" -- "$current"); return ;;
    --io) mapfile -t COMPREPLY < <(compgen -W "auto buffered mmap direct" -- "$current"); return ;;
    --device) mapfile -t COMPREPLY < <(compgen -W "cuda cuda:0 host" -- "$current"); return ;;
    --pixels) mapfile -t COMPREPLY < <(compgen -W "u8 f32 f16 bf16" -- "$current"); return ;;
    --content) mapfile -t COMPREPLY < <(compgen -W "random text" -- "$current"); return ;;
    --column | -c | --columns | --label) mapfile -t COMPREPLY < <(compgen -W "$(_shardctl_columns)" -- "$current"); return ;;
    --shard-size | --shard-samples | --block-size | --type | --codec | --dictionary | --storage | --jobs | -j | --task | --tasks | --offset | \
      --limit | --class-names | --sample | --samples | --key | --shard | --block | --count | --seed | --first-id | --width | --height | \
      --min-objects | --max-objects | --quality | --size | --jitter | --extension | --per-directory | --batch-size | --shuffle-buffer | --lanes | --expect-world-size | --world-size | \
      --rank | --proportion | --repeat | --choose | --at | --epoch-samples | --epoch | --from-step | --steps | --cursor | \
      --epochs | --context | --simulate-step | --simulate-latency | --memory | --threads | --read-threads | \
      --device-sizes | --pinned | --endpoint | --header | --query | --cache-limit | --requests) return ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_shardctl_options "$verb")" -- "$current")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}

complete -F _shardctl shardctl
