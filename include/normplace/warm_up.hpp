// SPDX-License-Identifier: BSD-3-Clause
//
// How large may the first step be, and does the placement need learning-rate warm-up? The first optimizer step
// predicted (the analysis/ headers, which need nothing but the standard library), measured, and tried in short
// trainings.
#pragma once

#include <normplace/analysis/first_step.hpp>
#include <normplace/analysis/warm_up_advice.hpp>
#include <normplace/measure/first_step.hpp>
#include <normplace/measure/short_training.hpp>
