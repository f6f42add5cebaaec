# fish completion for shardctl
# tests/cli/run.py compares this list of options with the output of --help.

function __shardctl_verb
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv
end

function __shardctl_no_verb
    test (count (commandline -opc)) -eq 1
end

function __shardctl_synth
    set -l words (commandline -opc)
    test (count $words) -ge 3; and test $words[2] = synth; and contains -- $words[3] $argv
end

function __shardctl_synth_no_kind
    set -l words (commandline -opc)
    test (count $words) -eq 2; and test $words[2] = synth
end

function __shardctl_columns
    for word in (commandline -opc)
        if test -f $word/dataset.json
            sed -n '/"columns"/,/"metadata"/s/.*"name": *"\([^"]*\)".*/\1/p' $word/dataset.json 2>/dev/null
            return
        end
    end
end

complete -c shardctl -s h -l help -d 'Show help'
complete -c shardctl -n __shardctl_no_verb -l version -d 'Show versions'
complete -c shardctl -n __shardctl_no_verb -f -a pack -d 'Pack files into a dataset of shards'
complete -c shardctl -n __shardctl_no_verb -f -a plan-pack -d 'Divide packing into tasks'
complete -c shardctl -n __shardctl_no_verb -f -a index -d 'Make indexes, or merge datasets'
complete -c shardctl -n __shardctl_no_verb -f -a history -d 'List the generations of a dataset'
complete -c shardctl -n __shardctl_no_verb -f -a ls -d 'List samples or shards'
complete -c shardctl -n __shardctl_no_verb -f -a inspect -d 'Describe a dataset, shard, block or sample'
complete -c shardctl -n __shardctl_no_verb -f -a cat -d 'Write one value'
complete -c shardctl -n __shardctl_no_verb -f -a validate -d 'Check every checksum and every rule'
complete -c shardctl -n __shardctl_no_verb -f -a repair -d 'Recover what is whole of a damaged shard or dataset'
complete -c shardctl -n __shardctl_no_verb -f -a convert -d 'Turn a dataset into one of another container'
complete -c shardctl -n __shardctl_no_verb -f -a filter -d 'Make a dataset of some samples, or count them'
complete -c shardctl -n __shardctl_no_verb -f -a split -d 'Divide a dataset at random, by key'
complete -c shardctl -n __shardctl_no_verb -f -a unpack -d 'Turn a dataset back into files'
complete -c shardctl -n __shardctl_no_verb -f -a plan -d 'Show which samples the steps of an epoch have'
complete -c shardctl -n __shardctl_no_verb -f -a simulate -d 'Predict how many nodes would read a dataset'
complete -c shardctl -n __shardctl_no_verb -f -a bench -d 'Read a dataset as a trainer would'
complete -c shardctl -n __shardctl_no_verb -f -a cache -d 'Look into or fill the cache of remote data'
complete -c shardctl -n __shardctl_no_verb -f -a uploads -d 'List or abort what killed writers left'
complete -c shardctl -n __shardctl_no_verb -f -a synth -d 'Make synthetic input'

complete -c shardctl -n '__shardctl_verb pack plan-pack index history ls inspect validate repair unpack convert filter split plan simulate bench cache uploads' -l json -d 'Print one JSON document'
complete -c shardctl -n '__shardctl_verb pack plan-pack index history ls inspect cat validate unpack convert filter split plan simulate bench cache uploads' -l endpoint -x -d 'Where s3:// leads'
complete -c shardctl -n '__shardctl_verb pack plan-pack index history ls inspect cat validate unpack convert filter split plan simulate bench cache' -l cache -x -a '(__fish_complete_directories)' -d 'Keep what is read of URLs here'
complete -c shardctl -n '__shardctl_verb pack plan-pack index history ls inspect cat validate unpack convert filter split plan simulate bench cache' -l cache-limit -x -d 'What the cache may take on disk'
complete -c shardctl -n '__shardctl_verb cache' -l requests -x -d 'Blocks fetched at once'
complete -c shardctl -n '__shardctl_verb cache' -f -a 'list verify clear warm'
complete -c shardctl -n '__shardctl_verb pack plan-pack index convert filter split' -l no-conditional -d 'Write to a store that does not honour If-None-Match'
complete -c shardctl -n '__shardctl_verb uploads' -f -a 'list abort'
complete -c shardctl -n '__shardctl_verb pack plan-pack validate unpack convert filter split' -s j -l jobs -x -d 'Threads'
complete -c shardctl -n '__shardctl_verb pack plan-pack ls inspect cat validate repair unpack convert filter split bench' -l max-decompression -x -d 'What stored bytes may decompress to beyond their size'
complete -c shardctl -n '__shardctl_verb pack plan-pack ls inspect cat unpack convert filter split plan bench' -l no-verify-hashes -d 'Do not compare the hashes listed for whole files'
complete -c shardctl -n '__shardctl_verb ls inspect cat unpack convert' -l at -x -d 'Read the dataset as it was in this generation'
complete -c shardctl -n '__shardctl_verb ls cat validate bench' -l io -x -a 'auto buffered mmap direct' -d 'How files are read'
complete -c shardctl -n '__shardctl_verb inspect cat' -l sample -x -d 'The sample with this ordinal'
complete -c shardctl -n '__shardctl_verb inspect cat' -l key -x -d 'The first sample with this key'

complete -c shardctl -n '__shardctl_verb pack plan-pack' -l from -x -a 'auto files imagefolder sa1b webdataset mds' -d 'What the inputs are'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l group-by -x -a 'first-dot last-dot none' -d 'Where names of files are divided'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -s o -l output -r -d 'Directory of the dataset'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l shard-size -x -d 'End a shard with the sample that reaches this'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l shard-samples -x -d 'Samples in each shard'
complete -c shardctl -n '__shardctl_verb pack plan-pack simulate' -l block-size -x -d 'Close a block when it reaches this'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l type -x -d 'Type of a column: COL=bytes, utf8, json, jpeg, png or image'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l codec -x -d 'Codec of a column: COL=none or COL=zstd[:LEVEL]'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l storage -x -d 'Storage of a column of codec none: COL=inline or COL=blob'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l dictionary -x -d 'Train a dictionary for a column: COL[=SIZE]'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l sha256 -d 'List the SHA-256 of each shard'
complete -c shardctl -n '__shardctl_verb pack convert validate' -l task -x -d 'Do part I of N: I/N'
complete -c shardctl -n '__shardctl_verb pack convert' -l finish -d 'Publish the dataset when all tasks have ended'
complete -c shardctl -n '__shardctl_verb plan-pack' -l tasks -x -d 'How many tasks are meant'
complete -c shardctl -n '__shardctl_verb pack' -l append -d 'Append to the dataset that is there'
complete -c shardctl -n '__shardctl_verb pack' -l existing-keys -x -a 'refuse skip add' -d 'What to do about keys that are there'
complete -c shardctl -n '__shardctl_verb pack' -l resume -d 'Go on where an interrupted run stopped'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l on-error -x -a 'fail skip' -d 'When a sample cannot be read'
complete -c shardctl -n '__shardctl_verb pack plan-pack' -l allow-empty -d 'An input directory without files is no error'
complete -c shardctl -n '__shardctl_verb pack' -l dry-run -d 'Write nothing'

complete -c shardctl -n '__shardctl_verb index' -l merge -r -d 'Make a dataset of parts'
complete -c shardctl -n '__shardctl_verb index' -l compact -d 'Join the indexes of segments'
complete -c shardctl -n '__shardctl_verb index' -l dali -d 'Write X.idx for each X.tar'
complete -c shardctl -n '__shardctl_verb index' -l wids -r -d 'Write an index for wids'
complete -c shardctl -n '__shardctl_verb index' -l name -x -d 'What the index for wids calls the dataset'
complete -c shardctl -n '__shardctl_verb index' -l no-md5 -d 'Leave the MD5 of the tars out'

complete -c shardctl -n '__shardctl_verb ls' -s l -l long -d 'Show the length of every value'
complete -c shardctl -n '__shardctl_verb ls' -l shards -d 'List shards'
complete -c shardctl -n '__shardctl_verb ls' -l values-xxh3 -d 'Print the hash of every stored value'
complete -c shardctl -n '__shardctl_verb ls' -l offset -x -d 'Begin with sample N'
complete -c shardctl -n '__shardctl_verb ls' -l limit -x -d 'List at most N samples'

complete -c shardctl -n '__shardctl_verb inspect' -l shard -x -d 'The shard at this place'
complete -c shardctl -n '__shardctl_verb inspect' -l block -x -d 'This block of the shard'

complete -c shardctl -n '__shardctl_verb cat' -s c -l column -x -a '(__shardctl_columns)' -d 'The column'
complete -c shardctl -n '__shardctl_verb cat' -s o -l output -r -d 'Write to a file'
complete -c shardctl -n '__shardctl_verb cat' -l decode -d 'Write as JSON or text'
complete -c shardctl -n '__shardctl_verb cat' -l force -d 'Write binary values even to a terminal'

complete -c shardctl -n '__shardctl_verb validate' -l deep -d 'Decode every value too'

complete -c shardctl -n '__shardctl_verb repair' -s o -l output -r -d 'New shard or dataset'
complete -c shardctl -n '__shardctl_verb repair' -l schema-from -r -d 'Where to take the columns from'
complete -c shardctl -n '__shardctl_verb repair' -l keep-samples -d 'Keep whole samples of damaged blocks'

complete -c shardctl -n '__shardctl_verb convert' -s o -l output -r -d 'Directory of the new dataset'
complete -c shardctl -n '__shardctl_verb convert' -l to -x -a 'shard webdataset mds' -d 'What to write'
complete -c shardctl -n '__shardctl_verb convert' -l columns -x -a '(__shardctl_columns)' -d 'Only these columns'
complete -c shardctl -n '__shardctl_verb convert' -l key -x -a '(__shardctl_columns)' -d 'The column that is the key'
complete -c shardctl -n '__shardctl_verb convert' -l lossy -d 'Map what has no exact counterpart'
complete -c shardctl -n '__shardctl_verb convert' -l shard-size -x -d 'Close a shard before it would pass this'
complete -c shardctl -n '__shardctl_verb convert' -l shard-samples -x -d 'Samples in each shard'
complete -c shardctl -n '__shardctl_verb convert' -l block-size -x -d 'Close a block when it reaches this'
complete -c shardctl -n '__shardctl_verb convert' -l codec -x -d 'Codec of a column: COL=none or COL=zstd[:LEVEL]'
complete -c shardctl -n '__shardctl_verb convert' -l storage -x -d 'Storage of a column of codec none: COL=inline or COL=blob'
complete -c shardctl -n '__shardctl_verb convert' -l sha256 -d 'List the SHA-256 of each shard'
complete -c shardctl -n '__shardctl_verb convert' -l compression -x -a 'none zstd' -d 'Compression of MDS shards'
complete -c shardctl -n '__shardctl_verb convert' -l hash -x -a 'xxh64 xxh3_64 xxh128 sha1 sha256 md5' -d 'Hashes of MDS shards'
complete -c shardctl -n '__shardctl_verb convert' -l encoding -x -d 'Encoding of an MDS column: COL=NAME'
complete -c shardctl -n '__shardctl_verb convert' -l no-index -d 'No indexes beside tars'
complete -c shardctl -n '__shardctl_verb convert' -l append -d 'Append to the dataset that is there'
complete -c shardctl -n '__shardctl_verb convert' -l existing-keys -x -a 'refuse skip add' -d 'What to do about keys that are there'
complete -c shardctl -n '__shardctl_verb convert' -l resume -d 'Go on where an interrupted run stopped'
complete -c shardctl -n '__shardctl_verb convert' -l on-error -x -a 'fail skip' -d 'When a sample cannot be read or stored'
complete -c shardctl -n '__shardctl_verb convert' -l dry-run -d 'Write nothing'
complete -c shardctl -n '__shardctl_verb filter' -s o -l output -r -d 'Directory of the new dataset'
complete -c shardctl -n '__shardctl_verb filter' -l where -x -d 'Only samples whose values satisfy this'
complete -c shardctl -n '__shardctl_verb filter' -l keys-from -r -d 'Only samples with a key of this file'
complete -c shardctl -n '__shardctl_verb filter' -l range -x -d 'Only samples A up to but not including B'
complete -c shardctl -n '__shardctl_verb filter' -l sample -x -d 'Only this share of the keys'
complete -c shardctl -n '__shardctl_verb filter' -l count -d 'Print how many samples there would be'
complete -c shardctl -n '__shardctl_verb split' -s o -l output -r -d 'Directory that gets the parts'
complete -c shardctl -n '__shardctl_verb split' -l into -x -d 'A part and its share: NAME=SHARE'
complete -c shardctl -n '__shardctl_verb filter split' -l seed -x -d 'Another choice for each'
complete -c shardctl -n '__shardctl_verb filter split' -l shard-size -x -d 'End a shard when it reaches this'
complete -c shardctl -n '__shardctl_verb filter split' -l block-size -x -d 'Close a block when it reaches this'
complete -c shardctl -n '__shardctl_verb filter split' -l resume -d 'Go on where an interrupted run stopped'
complete -c shardctl -n '__shardctl_verb unpack' -s o -l output -r -d 'Directory to write to'
complete -c shardctl -n '__shardctl_verb unpack' -l samples -x -d 'Only samples A:B'
complete -c shardctl -n '__shardctl_verb unpack' -l on-error -x -a 'fail skip' -d 'When a sample cannot be read'

complete -c shardctl -n '__shardctl_verb plan simulate bench' -l batch-size -x -d 'Samples of a step'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l seed -x -d 'What the random order is made from'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l order -x -a 'sequential shuffled window' -d 'Of the samples'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l shuffle-buffer -x -d 'Bytes to shuffle in'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l lanes -x -d 'Canonical streams'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l expect-world-size -x -d 'Ranks that lanes suit'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l locality -d 'Lanes keep their blocks in all epochs'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l remainder -x -a 'keep drop pad' -d 'What does not fill the last step'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l world-size -x -d 'Ranks that share each step'
complete -c shardctl -n '__shardctl_verb plan bench' -l rank -x -d 'This one of the ranks'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l proportion -x -d 'Shares of an epoch'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l repeat -x -d 'Times of each dataset'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l choose -x -d 'Samples of each dataset'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l epoch-samples -x -d 'Samples of an epoch'
complete -c shardctl -n '__shardctl_verb plan simulate bench' -l steps -x -d 'At most N steps'

complete -c shardctl -n '__shardctl_verb simulate' -l samples -x -d 'Of a dataset that need not exist'
complete -c shardctl -n '__shardctl_verb simulate' -l sample-size -x -d 'Bytes of each sample'
complete -c shardctl -n '__shardctl_verb simulate' -l shards -x -d 'In which they lie'
complete -c shardctl -n '__shardctl_verb simulate' -l ranks-per-node -x -d 'Ranks that share a link and a cache'
complete -c shardctl -n '__shardctl_verb simulate' -l step-time -x -d 'Of training on a batch'
complete -c shardctl -n '__shardctl_verb simulate' -l decode-time -x -d 'Of one thread for one sample'
complete -c shardctl -n '__shardctl_verb simulate' -l check-rate -x -d 'Bytes that one processor checks in a second'
complete -c shardctl -n '__shardctl_verb simulate' -l latency -x -d 'To the first byte of a request'
complete -c shardctl -n '__shardctl_verb simulate' -l node-bandwidth -x -d 'Bytes per second of a node'
complete -c shardctl -n '__shardctl_verb simulate' -l bandwidth -x -d 'Bytes per second of all nodes'
complete -c shardctl -n '__shardctl_verb simulate' -l request-rate -x -d 'Requests per second of all nodes'
complete -c shardctl -n '__shardctl_verb simulate' -l node-cache -x -d 'What a node keeps'
complete -c shardctl -n '__shardctl_verb plan' -l epoch -x -d 'The epoch'
complete -c shardctl -n '__shardctl_verb plan' -l from-step -x -d 'Show steps from this on'
complete -c shardctl -n '__shardctl_verb plan' -l cursor -x -d 'Begin where it stands'
complete -c shardctl -n '__shardctl_verb plan' -l label -x -a '(__shardctl_columns)' -d 'Column of classes'

complete -c shardctl -n '__shardctl_verb simulate bench' -l epochs -x -d 'Epochs to read'
complete -c shardctl -n '__shardctl_verb bench' -l decode -x -a 'none image masks tokens' -d 'What is decoded'
complete -c shardctl -n '__shardctl_verb bench' -l columns -x -a '(__shardctl_columns)' -d 'Columns to load'
complete -c shardctl -n '__shardctl_verb bench' -l context -x -d 'Tokens of a row'
complete -c shardctl -n '__shardctl_verb bench' -l simulate-step -x -d 'Sleep after each batch, milliseconds'
complete -c shardctl -n '__shardctl_verb bench' -l simulate-latency -x -d 'Let each request take this time, 50ms'
complete -c shardctl -n '__shardctl_verb bench' -l cold -d 'Drop the dataset from the page cache first'
complete -c shardctl -n '__shardctl_verb simulate bench' -l memory -x -d 'Budget of the loader'
complete -c shardctl -n '__shardctl_verb simulate bench' -l threads -x -d 'Decoding threads'
complete -c shardctl -n '__shardctl_verb bench' -l read-threads -x -d 'Reading threads'
complete -c shardctl -n '__shardctl_verb bench' -l verify -x -a 'every first never' -d 'Checksums compared'
complete -c shardctl -n '__shardctl_verb bench' -l on-error -x -a 'fail skip' -d 'When a sample is bad'
complete -c shardctl -n '__shardctl_verb bench' -l trace -r -d 'Write what each thread did when'
complete -c shardctl -n '__shardctl_verb bench' -l device -x -a 'cuda cuda:0 host' -d 'Measure it, and read onto it'
complete -c shardctl -n '__shardctl_verb bench' -l device-sizes -x -d 'Sizes to measure'
complete -c shardctl -n '__shardctl_verb bench' -l pinned -x -d 'Page-locked memory of the loader'
complete -c shardctl -n '__shardctl_verb bench' -l device-geometry -d 'Resize and crop images on the device'
complete -c shardctl -n '__shardctl_verb bench' -l pixels -x -a 'u8 f32 f16 bf16' -d 'What images become on the device'

complete -c shardctl -n __shardctl_synth_no_kind -f -a 'sa1b files' -d 'What to make'
complete -c shardctl -n '__shardctl_synth sa1b files' -s o -l output -r -d 'Directory to write to'
complete -c shardctl -n '__shardctl_synth sa1b files' -l count -x -d 'How many'
complete -c shardctl -n '__shardctl_synth sa1b files' -l seed -x -d 'What the contents are made from'
complete -c shardctl -n '__shardctl_synth sa1b files' -s j -l jobs -x -d 'Threads'
complete -c shardctl -n '__shardctl_synth sa1b files' -l overwrite -d 'Replace files that are there'
complete -c shardctl -n '__shardctl_synth sa1b files' -l json -d 'Print one JSON document'
complete -c shardctl -n '__shardctl_synth sa1b' -l first-id -x -d 'Number of the first pair'
complete -c shardctl -n '__shardctl_synth sa1b' -l width -x -d 'Of the pictures'
complete -c shardctl -n '__shardctl_synth sa1b' -l height -x -d 'Of the pictures'
complete -c shardctl -n '__shardctl_synth sa1b' -l min-objects -x -d 'Least annotations'
complete -c shardctl -n '__shardctl_synth sa1b' -l max-objects -x -d 'Most annotations'
complete -c shardctl -n '__shardctl_synth sa1b' -l quality -x -d 'Of the JPEG files'
complete -c shardctl -n '__shardctl_synth files' -l size -x -d 'Bytes per file'
complete -c shardctl -n '__shardctl_synth files' -l jitter -x -d 'By how much sizes differ'
complete -c shardctl -n '__shardctl_synth files' -l extension -x -d 'Of the names'
complete -c shardctl -n '__shardctl_synth files' -l per-directory -x -d 'Files in each subdirectory'
complete -c shardctl -n '__shardctl_synth files' -l content -x -a 'random text' -d 'What the files hold'
