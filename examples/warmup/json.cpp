// SPDX-License-Identifier: BSD-3-Clause
#include "../shared/json.hpp"

#include "files.hpp"

namespace warmup {

using shared::Json;
using shared::json_number;

namespace {

Json config(const Options& options) {
    Json config = shared::config(options);
    config["optimizer"] = options.rule.name;
    config["momentum"] = options.rule.momentum;
    config["learning_rate"] = json_number(options.learning_rate);
    config["train"] = options.steps;
    return config;
}

Json moment(const normplace::Moment& predicted, const normplace::Moment* measured) {
    return {{"predicted", json_number(predicted.value)},
            {"measured", measured ? json_number(measured->value) : Json(nullptr)},
            {"standard_error", measured ? json_number(measured->standard_error) : Json(nullptr)}};
}

Json correlation(const PlacementResult& result) {
    Json points = Json::array();
    for (const CorrelationPoint& point : result.correlation)
        points.push_back({{"learning_rate", point.learning_rate},
                          {"predicted", json_number(point.predicted)},
                          {"measured", json_number(point.measured.value)}});
    return points;
}

Json outcome(const Outcome& outcome) { return {{"loss", json_number(outcome.loss)}, {"learned", outcome.learned}}; }

Json training(const Ladder& ladder) {
    Json rungs = Json::array();
    for (const Rung& rung : ladder.rungs)
        rungs.push_back({{"learning_rate", rung.learning_rate},
                         {"without_warm_up", outcome(rung.without)},
                         {"warm_up_steps", json_number(rung.warm_up_steps)},
                         {"with_warm_up", rung.with ? outcome(*rung.with) : Json(nullptr)}});
    return {{"unigram_entropy", json_number(ladder.unigram_entropy)},
            {"largest_learned", json_number(ladder.largest_learned())},
            {"first_failed", json_number(ladder.first_failed())},
            {"rungs", rungs}};
}

}  // namespace

void write_json(std::ostream& stream, const Options& options, const std::vector<PlacementResult>& results) {
    Json placements = Json::array();
    for (const PlacementResult& result : results) {
        const normplace::FirstStepReport* measured = result.measured ? &*result.measured : nullptr;
        const bool is_predicted = result.has_theory();
        placements.push_back({{"name", result.predicted.placement},
                              {"formula", result.predicted.formula},
                              {"eta_half", moment(result.predicted.eta_half, measured ? &measured->eta_half : nullptr)},
                              {"response", moment(result.predicted.response, measured ? &measured->response : nullptr)},
                              {"recovers", is_predicted ? Json(result.advice.recovers) : Json(nullptr)},
                              {"advice", is_predicted ? Json(result.advice.sentence) : Json(nullptr)},
                              {"largest_learning_rate", json_number(result.advice.largest_learning_rate)},
                              {"warm_up_steps", json_number(result.advice.warm_up_steps)},
                              {"caveats", result.advice.caveats},
                              {"correlation", correlation(result)},
                              {"training", result.ladder ? training(*result.ladder) : Json(nullptr)}});
    }
    shared::write(stream, Json{{"config", config(options)}, {"placements", placements}});
}

}  // namespace warmup
