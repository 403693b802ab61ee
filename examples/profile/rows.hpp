// SPDX-License-Identifier: BSD-3-Clause
//
// The quantities that JSON and CSV list, under the names that both use.
#pragma once

#include <string>
#include <vector>

#include "run.hpp"

namespace profile {

/// NaN where there is no value: nothing was measured, one seed has no spread, the model has no such matrix.
struct Row {
    const char* name;
    double predicted, measured, standard_error;
    const normplace::GradientNorm* gradient =
        nullptr;  ///< the predicted one, where it is one: how far it can be trusted
};

/// wq, wk, wv, wo, w1, w2, and second_moment and token_correlation of the stream behind the layer (from 0).
std::vector<Row> layer_rows(const PlacementResult& result, std::size_t layer);

/// readout and loss.
std::vector<Row> model_rows(const PlacementResult& result);

}  // namespace profile
