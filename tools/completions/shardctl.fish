# fish completion for shardctl, which knows what may follow

function __shardctl_candidates
    set -l words (commandline -opc)
    for line in ($words[1] complete $words[2..-1] (commandline -ct) 2>/dev/null)
        if test $line = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end

complete -c shardctl -f -a '(__shardctl_candidates)'
