# What `cmake --install` and the Debian package hold: the program, its manual, completion of shells, presets and jobs.
include(GNUInstallDirs)
set(CMAKE_INSTALL_MESSAGE LAZY)

# made by the program from its own descriptions
set(made ${CMAKE_CURRENT_BINARY_DIR}/made)
set(say ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:tpinfer>)
add_custom_command(OUTPUT ${made}/tpinfer.1 ${made}/tpinfer ${made}/_tpinfer ${made}/tpinfer.fish
  COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
  COMMAND ${say} man > ${made}/tpinfer.1
  COMMAND ${say} completion bash > ${made}/tpinfer
  COMMAND ${say} completion zsh > ${made}/_tpinfer
  COMMAND ${say} completion fish > ${made}/tpinfer.fish
  DEPENDS tpinfer COMMENT "Manual and completion" VERBATIM)
add_custom_target(man ALL DEPENDS ${made}/tpinfer.1)

install(TARGETS tpinfer)
install(FILES ${made}/tpinfer.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${made}/tpinfer DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${made}/_tpinfer DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${made}/tpinfer.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/tpinfer)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/jobs DESTINATION ${CMAKE_INSTALL_DATADIR}/tpinfer
  FILES_MATCHING PATTERN "*.yaml" PATTERN "*.yml" PATTERN "*.txt" PATTERN "*.jsonl" PATTERN "*.sbatch" PATTERN "mpi_env.sh"
  PATTERN "packages.txt" EXCLUDE PATTERN "container" EXCLUDE)

# cpack -G DEB
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tpinfer)
set(CPACK_PACKAGE_CONTACT "The tpinfer authors <tpinfer@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "batch inference with large language models over MPI ranks")
set(CPACK_PACKAGE_DESCRIPTION "Each rank reads only its own slices of the weights of a Hugging Face model folder.
Texts, token ids, log probabilities and the memory of every rank go to one HDF5
file. The answers do not depend on the number of ranks, threads or the batch.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # the libraries' packages, as dpkg-shlibdeps finds them
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)  # without its orted not even one rank starts
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libnccl2, slurm-client")
include(CPack)
