// SPDX-License-Identifier: BSD-3-Clause
//
// What the JSON of profile and of warmup has in common.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "options.hpp"

namespace shared {

using Json = nlohmann::ordered_json;

/// null where there is no value
inline Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

inline Json config(const Options& options) {
    const normplace::ReferenceModel& model = options.model;
    return {{"layers", model.layers},
            {"width", model.width},
            {"heads", model.heads},
            {"ffn", model.feed_forward},
            {"sequence", model.sequence},
            {"batch", model.batch},
            {"vocabulary", model.vocabulary},
            {"norm", options.norm_name()},
            {"activation", model.activation.name},
            {"causal", model.causal},
            {"init", options.initialization_name()},
            {"measure", options.seeds},
            {"text", options.text_file.empty() ? Json(nullptr) : Json(options.text_file)}};
}

inline void write(std::ostream& stream, const Json& document) {
    // A file's name need not be UTF-8, and JSON must be.
    stream << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace shared
