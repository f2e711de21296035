#!/bin/sh
# The first process of a node, in mount, process and network namespaces of its own: with its end all
# that ran here ends, and every mount and network link is gone. $1 is the node's folder, $2 the
# address at which pods find the API server.
set -e
folder=$1

# Pods may ask that mounts reach them or leave them; both stay in this namespace.
mount --make-rshared /
mount -t tmpfs -o mode=755 run /run
mkdir -p "$folder/var-upper" "$folder/var-work" /run/lock
mount -t overlay -o "lowerdir=/var/lib,upperdir=$folder/var-upper,workdir=$folder/var-work" var /var/lib
mkdir -p "$folder/kubelet" "$folder/log" /var/lib/kubelet
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --bind "$folder/log" /var/log
# Where plug-ins of the container runtime register: also those that run outside.
mkdir -p "$folder/nri" /run/nri
mount --bind "$folder/nri" /run/nri

# The kubelet sets these for the whole machine. Here it sets a file of ours.
for knob in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    [ -e "/proc/sys/$knob" ] || continue
    mkdir -p "$folder/sysctl/$(dirname "$knob")"
    cat "/proc/sys/$knob" >"$folder/sysctl/$knob"
    mount --bind "$folder/sysctl/$knob" "/proc/sys/$knob"
done

ip link set lo up
ip address add "$2/32" dev lo
touch "$folder/initialized"
# Orphans come to the first process, which must ask for their exit codes: so does wait.
while :; do
    sleep 3600 &
    wait $!
done
