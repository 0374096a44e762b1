#pragma once

#include <memory>
#include <string>

#include "core/json.hpp"
#include "model/family_spec.hpp"

namespace tpinfer {

/// A family that a user's file describes instead of a table in this program.
///
/// `plan` is {"tensors": {NAME: ROLE, ...}, "ignore": [NAME, ...], "block": {...}}: "*" in a name is the layer's
/// number; a role is the name of one of the roles of a dense block, with " + bias" behind it where the checkpoint has a
/// bias too. The block's keys are norm (rms, rms_plus_one, layer), position (rope_half, rope_adjacent, learned, alibi),
/// gated, parallel, tied, activation; each has a default, see BlockSpec. Error(input) names `file` and the entry.
std::shared_ptr<const FamilySpec> family_from_plan(const Json& plan, const std::string& file);

}  // namespace tpinfer
