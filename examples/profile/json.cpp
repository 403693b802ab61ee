// SPDX-License-Identifier: BSD-3-Clause
#include <normplace/nn/blas_description.hpp>
#include <sstream>

#include "../shared/json.hpp"
#include "files.hpp"
#include "rows.hpp"

namespace profile {

using shared::Json;
using shared::json_number;

namespace {

void add(Json& object, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
        Json& entry = object[row.name] = {{"predicted", json_number(row.predicted)},
                                          {"measured", json_number(row.measured)},
                                          {"standard_error", json_number(row.standard_error)}};
        if (!row.gradient) continue;
        entry["validity"] = normplace::name(row.gradient->validity);
        if (row.gradient->limit != normplace::Limit::none) entry["limit"] = normplace::explain(row.gradient->limit);
    }
}

Json config(const Options& options) {
    Json config = shared::config(options);
    config["paper"] = options.paper;
    return config;
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
    shared::write(stream, document);
}

}  // namespace profile
