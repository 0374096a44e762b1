#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "core/json.hpp"
#include "core/log.hpp"
#include "job/job.hpp"
#include "model/model_spec.hpp"
#include "shard/claim.hpp"

namespace tpinfer {

/// The texts that a model is resolved from, on every rank alike.
struct ModelText {
  std::string config;
  std::string config_file;  ///< name of config.json for messages
  std::string plan = {};    ///< JSON, see family_from_plan; empty: the family is one of the program's
  std::string plan_file = {};

  /// Error(input)
  ModelSpec resolve() const;
};

/// A model folder as far as JSON and headers tell: nothing here has read a weight.
struct ModelFolder {
  std::string path;
  ModelText text;
  ModelSpec spec;
  Checkpoint checkpoint;
  Claims claims;  ///< points into spec and checkpoint

  /// Error(input). A job with dummy weights needs config.json alone.
  ModelFolder(const ModelJob& job, const Log& log);
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  /// Type that the job computes in: the one asked for, else the stored one.
  DType compute_dtype(std::optional<DType> asked) const { return asked.value_or(claims.stored_dtype); }
};

}  // namespace tpinfer
