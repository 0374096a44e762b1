#!/usr/bin/env bash
# A real Slurm on this machine: its own munge key and socket, slurmctld and one slurmd a node, all below one folder.
#   cluster.sh start DIR [NODES]   starts it and prints a line to eval (export SLURM_CONF=...)
#   cluster.sh stop DIR            stops what start has started and removes its network
#   cluster.sh lose DIR I          node I disappears: its daemon and ranks are killed, its link is taken down
# One node runs as it is. Of several each is a host of its own as far as a program can see: network namespace, host name
# and /dev/shm, so that MPI goes over TCP between nodes and shared memory stays inside of one.
# Needs root and the packages slurm-wlm, munge and iproute2; no systemd, no cgroups.
set -euo pipefail
cmd=${1:?start, stop or lose}; dir=$(realpath -m "${2:?folder}"); nodes=${3:-1}  # for lose: its number

network() {  # one bridge in this namespace, a veth pair for each node
  local k=$1 i
  echo "$k" > "$dir/net"
  ip link add "tpb$k" type bridge; ip addr add "10.77.$k.254/24" dev "tpb$k"; ip link set "tpb$k" up
  for i in $(seq 1 "$nodes"); do
    ip netns add "tpn$k-$i"
    ip link add "tpv$k-$i" type veth peer name eth0 netns "tpn$k-$i"
    ip link set "tpv$k-$i" master "tpb$k" up
    ip -n "tpn$k-$i" addr add "10.77.$k.$i/24" dev eth0; ip -n "tpn$k-$i" link set eth0 up; ip -n "tpn$k-$i" link set lo up
  done
}

start() {
  mkdir -p "$dir"/{state,spool,log}; chmod 755 "$dir"
  ( umask 077; head -c 1024 /dev/urandom > "$dir/munge.key" )
  munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge.seed" --num-threads=2
  local host ctl cores list=n1 i base k
  host=$(hostname -s); ctl=127.0.0.1; cores=$(nproc); base=$(shuf -i 20000-28000 -n 1); k=$((base % 250))
  if [ "$nodes" -gt 1 ]; then list="n[1-$nodes]"; network "$k"; ctl=10.77.$k.254; fi
  cat > "$dir/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host($ctl)
SlurmctldPort=$base
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
MpiDefault=pmix
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=5
MessageTimeout=30
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
CONF
  for i in $(seq 1 "$nodes"); do
    if [ "$nodes" -gt 1 ]; then
      echo "NodeName=n$i NodeHostname=n$i NodeAddr=10.77.$k.$i Port=$((base + 1)) CPUs=$cores State=UNKNOWN"
    else
      echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=$cores State=UNKNOWN"
    fi >> "$dir/slurm.conf"
    mkdir -p "$dir/spool/n$i"
  done
  echo "PartitionName=test Nodes=$list Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES" >> "$dir/slurm.conf"
  echo "PMIxCliTmpDirBase=/dev/shm" > "$dir/mpi.conf"  # private to each node
  export SLURM_CONF="$dir/slurm.conf"
  slurmctld -f "$SLURM_CONF"
  for i in $(seq 1 "$nodes"); do
    if [ "$nodes" -gt 1 ]; then
      nsenter --net="/run/netns/tpn$k-$i" unshare --uts --mount --ipc bash -c "
        hostname n$i; mount --make-rprivate /; mount -t tmpfs tmpfs /dev/shm
        for j in \$(seq 1 $nodes); do echo \"10.77.$k.\$j n\$j\"; done > $dir/hosts-n$i; echo \"10.77.$k.254 $host\" >> $dir/hosts-n$i; echo '127.0.0.1 localhost' >> $dir/hosts-n$i
        mount --bind $dir/hosts-n$i /etc/hosts
        exec slurmd -N n$i -f $SLURM_CONF"
    else
      slurmd -N "n$i" -f "$SLURM_CONF"
    fi
  done
  for _ in $(seq 60); do
    [ "$(sinfo -h -o %T 2>/dev/null | sort -u)" = idle ] && { echo "export SLURM_CONF=$SLURM_CONF"; return 0; }
    sleep 0.5
  done
  echo "Slurm did not become idle; see $dir/log" >&2; sinfo >&2 || true; return 1
}

stop() {
  local f pid k n
  for f in "$dir"/slurmd-*.pid "$dir/slurmctld.pid" "$dir/munged.pid"; do
    [ -f "$f" ] || continue
    pid=$(cat "$f"); kill "$pid" 2>/dev/null || true
    for _ in $(seq 40); do kill -0 "$pid" 2>/dev/null || break; sleep 0.25; done
    kill -9 "$pid" 2>/dev/null || true
  done
  if [ -f "$dir/net" ]; then
    k=$(cat "$dir/net")
    for n in $(ip netns list | awk '{print $1}' | grep "^tpn$k-" || true); do
      ip netns pids "$n" | xargs -r kill -9  # what a job has left
      ip link del "tpv${n#tpn}" 2>/dev/null || true
      ip netns del "$n"
    done
    ip link del "tpb$k" 2>/dev/null || true; rm -f "$dir/net"
  fi
}

lose() {
  local k
  k=$(cat "$dir/net")
  ip link set "tpv$k-$nodes" down
  ip netns pids "tpn$k-$nodes" | xargs -r kill -9
}

case $cmd in start) start ;; stop) stop ;; lose) lose ;; *) echo "start, stop or lose" >&2; exit 2 ;; esac
