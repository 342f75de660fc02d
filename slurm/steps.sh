# Shared by the job scripts beside it: how a stage runs on the nodes of the job, and what becomes of its exit code.
# Needs: KERNELRL_PYTHON, KERNELRL_CONFIG, KERNELRL_NODES (that train), KERNELRL_EXECUTORS,
# KERNELRL_GENERATORS, KERNELRL_RAY (1: the executor is on Ray), KERNELRL_RETRIES, KERNELRL_ARRAY (its jobs, or empty).

echo "attempt $((${SLURM_RESTART_COUNT:-0} + 1)) on $SLURM_JOB_NODELIST, $(date -Is)"

export SLURM_KILL_BAD_EXIT=1 # of srun: when a rank fails, the others end

agent() { # nodes, first node, module and its arguments
  local nodes=$1 first=$2
  shift 2
  srun --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --relative="$first" --overlap \
    "$KERNELRL_PYTHON" -m "$@"
}

start_executor() { # nodes that train; Ray on them and on the executor's, where the run's executor is on Ray
  ((KERNELRL_RAY)) || return 0
  local head
  head=$("$KERNELRL_PYTHON" -c 'import ray.util; print(ray.util.get_node_ip_address())')
  export RAY_ADDRESS=$head:$((20000 + SLURM_JOB_ID % 20000))
  export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=${KERNELRL_CONFIG%/*}/ray-token.$SLURM_JOB_ID # or anyone may use it
  (umask 077 && head -c 32 /dev/urandom | sha256sum | head -c 64 >"$RAY_AUTH_TOKEN_PATH")
  SLURM_KILL_BAD_EXIT=0 agent $(($1 + KERNELRL_EXECUTORS)) 0 kernelrl.runs.launch.ray_node & # it outlives one of its nodes
}

start_generation() { # vLLM on the last node, where the job has one for it; the trainer waits until it answers
  ((KERNELRL_GENERATORS)) || return 0
  local index=$((KERNELRL_NODES + KERNELRL_EXECUTORS)) host
  host=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n "$((index + 1))p")
  local port=$((40000 + SLURM_JOB_ID % 20000))
  export KERNELRL_VLLM_URL=http://$host:$port
  agent 1 "$index" kernelrl.runs.launch.generator "$KERNELRL_CONFIG" "$port" &
}

run() { # nodes, stage, overrides
  local nodes=$1
  shift
  agent "$nodes" 0 kernelrl.runs.launch.agent "$KERNELRL_CONFIG" "$@"
  finish "$1"
}

finish() { # stage: what becomes of the exit code of what ran last
  local code=$?
  case $code in
    0) return ;;
    2 | 200) exit 2 ;; # what the user gave cannot be used: another try would end alike
    75) requeue "told to stop" ;;
    *) failed "$1 ended with $code" ;;
  esac
}

failed() { # why: queue the job again, unless it has failed too often
  local failures=${KERNELRL_CONFIG%/*}/failures
  echo "$(date -Is) job $SLURM_JOB_ID: $1" >>"$failures"
  if (($(wc -l <"$failures") > KERNELRL_RETRIES)); then
    echo "error: $1, for the $(wc -l <"$failures"). time (launcher.retries=$KERNELRL_RETRIES)" >&2
    exit 1
  fi
  requeue "$1"
}

requeue() { # why
  echo "$1: the job is queued again, and goes on from what it has written" >&2
  scontrol requeue "$SLURM_JOB_ID"
  exit 75
}
