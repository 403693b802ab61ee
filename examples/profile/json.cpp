// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <nlohmann/json.hpp>
#include <normplace/nn/blas_description.hpp>
#include <sstream>

#include "files.hpp"
#include "rows.hpp"

namespace profile {

using Json = nlohmann::ordered_json;

namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add(Json& object, const std::vector<Row>& rows) {
    for (const Row& row : rows)
        object[row.name] = {{"predicted", number(row.predicted)},
                            {"measured", number(row.measured)},
                            {"standard_error", number(row.standard_error)}};
}

Json config(const Options& options) {
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
            {"paper", options.paper},
            {"measure", options.seeds},
            {"text", options.text_file.empty() ? Json(nullptr) : Json(options.text_file)}};
}

}  // namespace

void write_json(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results) {
    Json placements = Json::array();
    for (const PlacementResult& result : results) {
        Json placement{{"name", result.predicted.placement}, {"formula", result.predicted.formula}};
        placement["layers"] = Json::array();
        for (std::size_t l = 0; l < result.predicted.layers.size(); ++l)
            add(placement["layers"].emplace_back(Json::object()), layer_rows(result, l));
        add(placement, model_rows(result));
        placements.push_back(placement);
    }
    std::ostringstream blas;
    blas << normplace::blas_description();
    const Json document{{"config", config(options)},
                        {"blas", options.seeds > 0 ? Json(blas.str()) : Json(nullptr)},
                        {"placements", placements}};
    // A file's name need not be UTF-8, and JSON must be.
    stream << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace profile
