# bash completion for shardctl, which knows what may follow

_shardctl() {
  local current=${COMP_WORDS[COMP_CWORD]} word
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    if [[ $word == :files ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$current")
    elif [[ $word == "$current"* ]]; then
      COMPREPLY+=("$word")
    fi
  done < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -F _shardctl shardctl
