// SPDX-License-Identifier: BSD-3-Clause
#include "../shared/json.hpp"

#include "files.hpp"

namespace warmup {

using shared::Json;
using shared::number;

namespace {

Json config(const Options& options) {
    Json config = shared::config(options);
    config["optimizer"] = options.rule.name;
    config["momentum"] = options.rule.momentum;
    config["learning_rate"] = number(options.learning_rate);
    config["train"] = options.steps;
    return config;
}

Json moment(const normplace::Moment& predicted, const normplace::Moment* measured) {
    return {{"predicted", number(predicted.value)},
            {"measured", measured ? number(measured->value) : Json(nullptr)},
            {"standard_error", measured ? number(measured->standard_error) : Json(nullptr)}};
}

Json correlation(const PlacementResult& result) {
    Json points = Json::array();
    for (const CorrelationPoint& point : result.correlation)
        points.push_back({{"learning_rate", point.learning_rate},
                          {"predicted", number(point.predicted)},
                          {"measured", number(point.measured.value)}});
    return points;
}

Json outcome(const Outcome& outcome) { return {{"loss", number(outcome.loss)}, {"learned", outcome.learned}}; }

Json training(const Ladder& ladder) {
    Json rungs = Json::array();
    for (const Rung& rung : ladder.rungs)
        rungs.push_back({{"learning_rate", rung.learning_rate},
                         {"without_warm_up", outcome(rung.without)},
                         {"warm_up_steps", number(rung.warm_up_steps)},
                         {"with_warm_up", rung.with ? outcome(*rung.with) : Json(nullptr)}});
    return {{"unigram_entropy", number(ladder.unigram_entropy)},
            {"largest_learned", number(ladder.largest_learned())},
            {"first_failed", number(ladder.first_failed())},
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
                              {"largest_learning_rate", number(result.advice.largest_learning_rate)},
                              {"warm_up_steps", number(result.advice.warm_up_steps)},
                              {"caveats", result.advice.caveats},
                              {"correlation", correlation(result)},
                              {"training", result.ladder ? training(*result.ladder) : Json(nullptr)}});
    }
    shared::write(stream, Json{{"config", config(options)}, {"placements", placements}});
}

}  // namespace warmup
