#include "comm/backoff.hpp"
#include "comm/mpi_communicator.hpp"

namespace tpinfer {

MpiSession::MpiSession() : health_(std::make_shared<MpiHealth>()) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised) return;
  int provided = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI does not start");
  initialised_here_ = true;
  if (provided < MPI_THREAD_FUNNELED)
    throw Error(ExitCode::communication, "this MPI library does not allow threads beside the one that calls it",
                "use a build of it with MPI_THREAD_FUNNELED");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiSession::~MpiSession() {
  // finalising waits for all ranks, and for requests that were given up
  if (initialised_here_ && !health_->broken()) MPI_Finalize();
}

std::unique_ptr<Communicator> MpiSession::world(double timeout, std::size_t most_per_message) const {
  const auto copy = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  const std::string_view what = "the world of all ranks cannot be set up";
  check_mpi(MPI_Comm_idup(MPI_COMM_WORLD, copy.get(), &request), what);
  Backoff backoff(timeout, 0);
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    if (done) break;
    if (!backoff.step()) {
      health_->fail(what);
      health_->kept.push_back(copy);
      throw Error(ExitCode::communication, fmt::format("not all ranks have started after {:.1f} s", backoff.waited()),
                  std::string(kMissingRankHint));
    }
  }
  return std::make_unique<MpiCommunicator>(*copy, MpiSettings{timeout, most_per_message}, health_);
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text);
  while (!version.empty() && (version.back() == '\n' || version.back() == ' ')) version.pop_back();
  return version;
}

std::string mpi_build_version() {
#ifdef OMPI_MAJOR_VERSION
  return fmt::format("Open MPI {}.{}.{} (MPI {}.{})", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION,
                     MPI_VERSION, MPI_SUBVERSION);
#else
  return fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION);
#endif
}

}  // namespace tpinfer
