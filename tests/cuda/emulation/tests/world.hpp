#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <emulation/control.hpp>
#include <map>
#include <string>
#include <vector>

namespace cuda_emulation {

/// Each test has emulated GPUs of its own, as its environment says.
class WorldTest : public testing::Test {
 protected:
  void SetUp() override { restart({}); }
  void TearDown() override {
    for (const auto& [name, value] : set_) unsetenv(name.c_str());
    reset();
  }
  void restart(const std::map<std::string, std::string>& environment) {
    for (const auto& [name, value] : environment) {
      setenv(name.c_str(), value.c_str(), 1);
      set_[name] = value;
    }
    reset();
  }
  template <class T>
  T* device(std::size_t count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, count * sizeof(T)), cudaSuccess);
    return static_cast<T*>(data);
  }
  template <class T>
  T* pinned(std::size_t count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMallocHost(&data, count * sizeof(T)), cudaSuccess);
    return static_cast<T*>(data);
  }
  template <class T>
  T* device_copy(const std::vector<T>& values) {
    T* data = device<T>(values.size());
    EXPECT_EQ(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    return data;
  }
  template <class T>
  std::vector<T> host_copy(const T* data, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  cudaStream_t stream() {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
    return made;
  }

 private:
  std::map<std::string, std::string> set_;
};

}  // namespace cuda_emulation
