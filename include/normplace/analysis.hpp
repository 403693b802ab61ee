// SPDX-License-Identifier: BSD-3-Clause
//
// The analysis wing alone: predicted gradient norms for any placement, and the statements of Xiong et al. 2020. Needs
// nothing but the standard library.
#pragma once

#include <normplace/analysis/paper.hpp>
#include <normplace/analysis/predict.hpp>
#include <normplace/placement/catalogue.hpp>
#include <normplace/placement/visit.hpp>
