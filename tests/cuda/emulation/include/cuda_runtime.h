#pragma once

#include "cuda_runtime_api.h"
#include "emulation/device_math.hpp"
#include "emulation/kernel.hpp"
