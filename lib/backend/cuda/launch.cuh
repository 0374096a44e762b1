#pragma once

#include "core/cuda_launch.cuh"
