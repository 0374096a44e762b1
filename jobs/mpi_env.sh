# Sourced by the scripts: settings with which Open MPI runs anywhere, also as root, in containers and on few cores.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1      # more ranks than cores
export OMPI_MCA_hwloc_base_binding_policy=none  # ranks share the cores out by themselves
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # containers forbid cross-memory attach; silences its warning
