// What several ranks hold alike (replicated tensors, K and V heads that ranks share) is compared once after loading: a
// rank whose folder has other bytes stops the run with the tensor's name, on all ranks alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "mpi_test.hpp"
#include "runtime/model_folder.hpp"
#include "runtime/rank_worker.hpp"

namespace tpinfer::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The same text on every rank: rank 0's.
std::string from_rank_0(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  world().broadcast(bytes, 0, "a text");
  std::string out;
  for (const std::byte b : bytes) out += static_cast<char>(b);
  return out;
}

/// Two folders of one model that all ranks see, the second with one element of one tensor changed; gone at the end.
class TwoFolders {
 public:
  TwoFolders(const std::string& model, const std::string& tensor) {
    std::string made;
    if (world().rank() == 0) {
      made = (fs::temp_directory_path() / "tpinfer_replicated_XXXXXX").string();
      if (::mkdtemp(made.data()) == nullptr) made.clear();
      for (const char* name : {"one", "other"})
        fs::copy(std::string(TPINFER_TEST_DATA "/models/") + model, fs::path(made) / name, fs::copy_options::recursive);
      if (!tensor.empty()) change(fs::path(made) / "other", tensor);
    }
    path_ = from_rank_0(made);
  }
  ~TwoFolders() {
    world().barrier("the folders are no longer needed");
    std::error_code ignored;
    if (world().rank() == 0) fs::remove_all(path_, ignored);
  }
  TwoFolders(const TwoFolders&) = delete;
  TwoFolders& operator=(const TwoFolders&) = delete;
  std::string one() const { return path_ + "/one"; }
  std::string other() const { return path_ + "/other"; }

 private:
  // The lowest bit of the tensor's last byte but one: a small change of its last element.
  static void change(const fs::path& folder, const std::string& name) {
    const Checkpoint checkpoint = Checkpoint::open(folder, Log());
    const TensorInfo* tensor = checkpoint.find(name);
    ASSERT_NE(tensor, nullptr) << name;
    std::fstream file(checkpoint.files()[tensor->file].path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(tensor->offset + tensor->bytes - 2);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }

  std::string path_;
};

/// Loads on every rank, on `stray` from the other folder. -> the complaint of the comparison, empty: none.
std::string compared(const TwoFolders& folders, int stray) {
  const ModelFolder model({.path = folders.one()}, Log());
  RunSetup setup;
  setup.plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, world().size(), DType::float32);
  setup.limits = {.max_rows = 16, .max_sequences = 1, .max_model_len = 16, .logit_rows = 16};
  setup.kv_blocks = 1;
  setup.threads = 1;
  setup = decode_setup(encode_setup(setup, model.text));
  if (world().rank() == stray)
    for (PlanFile& file : setup.plan.files) {
      file.path.replace(0, folders.one().size(), folders.other());
      file.modified = open_model_file(file.path).modified;
    }
  RankWorker worker(setup, world(), world(), 0, nullptr);
  worker.share_reading(world());
  worker.load({});
  try {
    worker.compare_replicated(world());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input) << error.what();
    return error.what();
  }
  return {};
}

TEST(Replicated, TheSameFolderIsNoComplaint) { EXPECT_EQ(compared(TwoFolders("rand-qwen2-moe-mixed", ""), 1), ""); }

TEST(Replicated, ARankWithAnotherTensorIsNamedWithIt) {
  const std::pair<const char*, const char*> tensors[] = {
      {"rand-mixtral-uneven", "model.layers.1.post_attention_layernorm.weight"},
      {"rand-mixtral-uneven", "model.layers.0.block_sparse_moe.gate.weight"},
      {"rand-mixtral-uneven", "model.norm.weight"},
      {"rand-qwen2-moe-mixed", "model.layers.3.mlp.shared_expert_gate.weight"},
      {"rand-gpt-bigcode-mqa-odd", "transformer.wpe.weight"},
      {"rand-gpt-bigcode-mqa-odd", "transformer.h.1.attn.c_proj.bias"},
      {"rand-llama-uneven", "model.layers.0.mlp.down_proj.bias"},
  };
  for (const auto& [model, tensor] : tensors) {
    const TwoFolders folders(model, tensor);
    const int last = world().size() - 1;
    const std::string told = compared(folders, last);
    EXPECT_THAT(told,
                AllOf(HasSubstr("rank " + std::to_string(last)), HasSubstr(tensor), HasSubstr("same model folder")));
    EXPECT_EQ(told, from_rank_0(told)) << "all ranks tell the same";
  }
}

// Ranks that hold the last row of this tensor at the world's size.
std::vector<int> holders_of_last_row(const TwoFolders& folders, const std::string& name) {
  const ModelFolder model({.path = folders.one()}, Log());
  const ShardingPlan plan =
      make_sharding_plan(model.spec, model.checkpoint, model.claims, world().size(), DType::float32);
  const auto tensor = std::ranges::find(plan.tensors, name, &PlannedTensor::name);
  std::vector<int> ranks;
  for (int rank = 0; rank < world().size(); ++rank) {
    const auto& slice =
        plan.slices[static_cast<std::size_t>(tensor - plan.tensors.begin())][static_cast<std::size_t>(rank)];
    if (!slice.ranges.empty() && slice.ranges.back().end == tensor->shape[0]) ranks.push_back(rank);
  }
  return ranks;
}

TEST(Replicated, HeadsThatRanksShareAreComparedAmongThem) {
  const std::pair<const char*, const char*> tensors[] = {
      {"rand-qwen2", "model.layers.1.self_attn.k_proj.weight"},
      {"rand-qwen2", "model.layers.0.self_attn.v_proj.bias"},
      {"rand-mixtral-uneven", "model.layers.1.self_attn.v_proj.weight"},
      {"rand-gpt-bigcode-mqa-odd", "transformer.h.0.attn.c_attn.weight"},
      {"rand-gpt-bigcode-mqa-odd", "transformer.h.1.attn.c_attn.bias"},
  };
  int shared = 0;
  for (const auto& [model, tensor] : tensors) {
    const TwoFolders folders(model, tensor);
    const std::vector<int> holders = holders_of_last_row(folders, tensor);
    for (int stray = 0; stray < world().size(); ++stray) {
      const std::string told = compared(folders, stray);
      if (holders.size() < 2 || std::ranges::find(holders, stray) == holders.end()) {
        EXPECT_EQ(told, "") << tensor << ": rank " << stray << " has nothing of it that another rank has";
        continue;
      }
      ++shared;
      const int strange = stray == holders[0] ? holders[1] : stray;
      EXPECT_THAT(told, AllOf(HasSubstr(fmt::format("rank {} read other bytes of {} (rows ", strange, tensor)),
                              HasSubstr(fmt::format(") than rank {} ", holders[0]))));
      EXPECT_EQ(told, from_rank_0(told)) << "all ranks tell the same";
    }
  }
  EXPECT_GE(shared, 2 * world().size()) << "K and V of the last model lie on every rank";
}

TEST(Replicated, WhenRankZeroIsTheStrayTheTensorIsNamedToo) {
  const TwoFolders folders("rand-mixtral-uneven", "model.layers.0.input_layernorm.weight");
  EXPECT_THAT(compared(folders, 0), HasSubstr("model.layers.0.input_layernorm.weight"));
}

}  // namespace
}  // namespace tpinfer::testing
