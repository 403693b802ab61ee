// SPDX-License-Identifier: BSD-3-Clause
//
// This library's own figure: how alike the first step makes all tokens, predicted and measured.
#pragma once

#include "figure.hpp"
#include "setting.hpp"

namespace reproduce {

/// Adam's first step on an encoder of the setting's size, with Gaussian tokens.
Figure first_step_figure(const Setting& setting);

}  // namespace reproduce
